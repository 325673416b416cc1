"""A default is written in one place: the documentation follows it, and nothing else has one of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from scripts import version_scrub
from tests.make.conftest import Tree


@pytest.fixture(scope="module")
def known(checkout: Path) -> version_scrub.Facts:
    return version_scrub.facts(checkout / "rocm-bake.hcl")


@pytest.fixture(scope="module")
def page(checkout: Path) -> str:
    return (checkout / version_scrub.TABLES_PAGE).read_text()


def scrubbed(text: str, known: version_scrub.Facts) -> str:
    return version_scrub.scrubbed(version_scrub.TABLES_PAGE, text, known)


def test_the_pages_in_the_repository_are_up_to_date() -> None:
    assert version_scrub.main(["--check"]) == 0


def test_every_variable_is_in_exactly_one_table(page: str, known: version_scrub.Facts) -> None:
    rows = [line.split("`")[1] for line in page.splitlines() if line.startswith("| `") and " | `" in line]
    assert rows == list(known.variables)


def test_a_change_of_any_default_or_description_shows(page: str, known: version_scrub.Facts) -> None:
    for name, variable in known.variables.items():
        for changed in (replace(variable, default="changed"), replace(variable, description="changed")):
            assert scrubbed(page, replace(known, variables={**known.variables, name: changed})) != page, name


def test_the_count_is_counted(page: str, known: version_scrub.Facts) -> None:
    fewer = dict(list(known.variables.items())[:-1])
    sections = {name: tuple(n for n in names if n in fewer) for name, names in known.sections.items()}
    shown = scrubbed(page, replace(known, variables=fewer, sections=sections))
    assert f"declares <!-- scrub count -->{len(known.variables) - 1}<!-- /scrub --> variables" in shown


def test_a_section_without_a_table(page: str, known: version_scrub.Facts) -> None:
    more = replace(known, sections={**known.sections, "New": ("RUN_ID",)})
    with pytest.raises(
        version_scrub.PlaceError, match=r"has no table of New; add a line: <!-- scrub table New --><!-- /scrub -->"
    ):
        scrubbed(page, more)


@pytest.mark.parametrize("what", ["default NOBODY", "table Nothing", "counts", "count it"])
def test_an_unknown_place(known: version_scrub.Facts, what: str) -> None:
    with pytest.raises(version_scrub.PlaceError, match=rf"docs/x.md:2: scrub {what}: rocm-bake.hcl has no"):
        version_scrub.scrubbed("docs/x.md", f"a\n<!-- scrub {what} --><!-- /scrub -->", known)


@pytest.fixture
def documented(tree: Tree, checkout: Path) -> Tree:
    for name in [version_scrub.TABLES_PAGE, "docs/atom-and-vllm.md", "rehearsal/tools/engine.py"]:
        file = tree.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text((checkout / name).read_text())
    return tree


def check(tree: Tree) -> tuple[list[str], list[str]]:
    """What the two checks of `make check` print; the exit codes have to agree with it."""
    scrub = tree.make("version-scrub-check")
    python = scrub.stdout.split()[0]
    defaults = tree.run(python, "scripts/check-defaults.py")
    pages = [line for line in scrub.stderr.splitlines() if not line.startswith("make: ***")]
    others = defaults.stderr.splitlines()
    assert (scrub.returncode != 0, defaults.returncode) == (bool(pages), 1 if others else 0)
    return pages, others


def test_a_default_changed_in_the_bake_file_alone(documented: Tree) -> None:
    assert check(documented) == ([], [])
    documented.edit("rocm-bake.hcl", '"v0.33.0"', '"v0.34.0"')
    pages = [
        f"{page}: out of date with rocm-bake.hcl; run: make version-scrub"
        for page in ("docs/atom-and-vllm.md", "docs/bake-variables.md")
    ]
    assert check(documented) == (pages, [])
    assert documented.make("version-scrub").returncode == 0
    assert check(documented) == ([], [])


def test_a_default_changed_in_a_page_alone(documented: Tree) -> None:
    documented.edit("docs/bake-variables.md", "`v0.33.0`", "`v0.34.0`")
    mended = "docs/bake-variables.md: out of date with rocm-bake.hcl; run: make version-scrub"
    assert check(documented) == ([mended], [])


@pytest.mark.parametrize(
    ("file", "old", "new", "line"),
    [
        (
            "docker/Dockerfile.sccache",
            "ARG SCCACHE_VERSION",
            "ARG SCCACHE_VERSION=0.18.0",
            "docker/Dockerfile.sccache:2: ARG SCCACHE_VERSION has a default of its own, 0.18.0; "
            r"run: sed -i '2s/\bSCCACHE_VERSION=[^ ]*/SCCACHE_VERSION/' docker/Dockerfile.sccache",
        ),
        (
            "docker/Dockerfile.sccache",
            "ARG SCCACHE_VERSION",
            "ARG SOURCE SCCACHE_VERSION=0.18.0 OTHER=1",
            "docker/Dockerfile.sccache:2: ARG SCCACHE_VERSION has a default of its own, 0.18.0; "
            r"run: sed -i '2s/\bSCCACHE_VERSION=[^ ]*/SCCACHE_VERSION/' docker/Dockerfile.sccache",
        ),
        (
            "docker/with-sccache.sh",
            "${FORCE_RECACHE-false}",
            "${FORCE_RECACHE-true}",
            "docker/with-sccache.sh: has true for FORCE_RECACHE, rocm-bake.hcl false; "
            "run: sed -i '/FORCE_RECACHE/s/true/false/' docker/with-sccache.sh",
        ),
        (
            "rehearsal/tools/engine.py",
            'SCCACHE_VERSION = "0.19.0"',
            'SCCACHE_VERSION = "0.18.0"',
            "rehearsal/tools/engine.py: has 0.18.0 for SCCACHE_VERSION, rocm-bake.hcl 0.19.0; "
            "run: sed -i '/SCCACHE_VERSION/s/0.18.0/0.19.0/' rehearsal/tools/engine.py",
        ),
        (
            "Makefile",
            "include .build/bake.mk",
            "PYTORCH_VERSION := 2.16.0\ninclude .build/bake.mk",
            "make has PYTORCH_VERSION=2.16.0, rocm-bake.hcl 2.15.0; run: rm .build/bake.mk, and take PYTORCH_VERSION "
            "out of the Makefile if it is there",
        ),
        (
            ".build/bake.mk",
            "2.15.0",
            "2.16.0",
            "make has PYTORCH_VERSION=2.16.0, rocm-bake.hcl 2.15.0; run: rm .build/bake.mk, and take PYTORCH_VERSION "
            "out of the Makefile if it is there",
        ),
    ],
)
def test_a_default_written_elsewhere(documented: Tree, file: str, old: str, new: str, line: str) -> None:
    documented.edit(file, old, new)
    assert check(documented)[1] == [line]


def test_the_memory_of_a_job_is_the_same_in_shell(checkout: Path) -> None:
    from buildspec.box.jobs import BYTES_PER_JOB

    script = (checkout / "docker" / "with-sccache.sh").read_text().splitlines()
    assert f"gib_per_job={BYTES_PER_JOB // 1024**3}" in script
