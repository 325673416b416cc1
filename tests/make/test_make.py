"""make build-<target> and make list-vars, really run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from buildspec import bakefile
from buildspec.box import jobs
from infra import context
from tests.make.conftest import Tree, program

# Offline, and where nothing is resolved, make and a bare bake can be given the very same variables.
GIVEN = {
    "VCS_REF": "0123abc",
    "BUILD_DATE": "2026-01-02T03:04:05Z",
    "MAX_JOBS": "3",
    "RUN_ID": "given",
    "SCCACHE_BUCKET": "a-bucket",
    "SCCACHE_REGION": "us-east-1",
}
SUPPLIED = {"VCS_REF", "BUILD_DATE", "MAX_JOBS", "RUN_ID", "SCCACHE_WEBDAV_ENDPOINT"}


@pytest.fixture(scope="module")
def declared(checkout: Path) -> bakefile.BakeFile:
    return bakefile.load(checkout / "rocm-bake.hcl")


def test_make_and_a_bare_bake_agree_on_every_target_and_group(
    baking: Callable[..., dict[str, Any]], declared: bakefile.BakeFile
) -> None:
    names = [name for name, target in declared.targets.items() if not target.is_abstract] + list(declared.groups)
    assert "cache-probe" in names
    for name in names:
        assert baking(name, **GIVEN) == baking(name, bare=True, **GIVEN)


def test_make_and_a_bare_bake_agree_on_what_is_set(baking: Callable[..., dict[str, Any]]) -> None:
    variables = {**GIVEN, "REGISTRY": "r.example:5000", "FORCE_RECACHE": "true", "SCCACHE_LOG": "debug"}
    through_make = baking("cache-probe", **variables)
    assert through_make == baking("cache-probe", bare=True, **variables)
    assert through_make["target"]["cache-probe"]["tags"] == ["r.example:5000/rocm-pytorch:cache-probe"]


def test_set_but_empty_is_unset(baking: Callable[..., dict[str, Any]]) -> None:
    empty = dict.fromkeys(["REGISTRY", "REGISTRY_INSECURE", "REQUIRE_SCCACHE", "SDE_EPOCH", "SOURCE_URL"], "")
    assert baking("cache-probe", **GIVEN, **empty) == baking("cache-probe", bare=True, **GIVEN)


def test_the_command(tree: Tree) -> None:
    arguments, _ = tree.asked("build-cache-probe")
    assert arguments == ["buildx", "bake", "--file", "rocm-bake.hcl", "cache-probe"]


def test_what_make_supplies(tree: Tree) -> None:
    before = jobs.max_jobs_here()
    _, environment = tree.asked("build-cache-probe", SCCACHE_WEBDAV_HOST="localhost", SCCACHE_WEBDAV_PORT="99")
    assert environment["VCS_REF"] == tree.git("rev-parse", "HEAD")
    assert environment["BUILD_DATE"] == "2024-02-02T23:05:06Z"
    assert before - 1 <= int(environment["MAX_JOBS"]) <= len(os.sched_getaffinity(0))
    assert environment["SCCACHE_WEBDAV_ENDPOINT"] == "http://127.0.0.1:99"
    assert re.fullmatch(r"\S+-\d{8}T\d{6}Z-\d+", environment["RUN_ID"])


def test_a_changed_tree_is_dirty(tree: Tree) -> None:
    (tree.path / "docker" / "new").touch()
    assert tree.values()["VCS_REF"] == (f"{tree.git('rev-parse', 'HEAD')}-dirty", "make")


def test_what_is_set_wins_over_what_make_supplies(tree: Tree) -> None:
    _, environment = tree.asked("build-cache-probe", "MAX_JOBS=5", **{**GIVEN, "MAX_JOBS": "4"})
    assert {name: environment[name] for name in GIVEN} == {**GIVEN, "MAX_JOBS": "5"}


def test_an_endpoint_of_ones_own_is_replaced_and_make_says_so(tree: Tree) -> None:
    variables = {"SCCACHE_WEBDAV_HOST": "localhost", "SCCACHE_WEBDAV_ENDPOINT": "http://mine:1"}
    done = tree.make("build-cache-probe", **variables)
    assert '"SCCACHE_WEBDAV_ENDPOINT": "http://127.0.0.1:8081"' in done.stdout
    assert (
        "SCCACHE_WEBDAV_ENDPOINT=http://mine:1 (from environment) is replaced by http://127.0.0.1:8081" in done.stderr
    )
    assert "is replaced" not in tree.make("build-cache-probe", SCCACHE_WEBDAV_HOST="localhost").stderr


def test_a_host_without_an_address_is_passed_on(tree: Tree) -> None:
    done = tree.make("build-cache-probe", SCCACHE_WEBDAV_HOST="nowhere.invalid")
    assert '"SCCACHE_WEBDAV_ENDPOINT": "http://nowhere.invalid:8081"' in done.stdout
    assert "SCCACHE_WEBDAV_HOST=nowhere.invalid has no address here" in done.stderr


def test_with_a_bucket_nothing_is_resolved(tree: Tree) -> None:
    done = tree.make("build-cache-probe", **{**GIVEN, "SCCACHE_WEBDAV_HOST": "nowhere.invalid"})
    assert '"SCCACHE_WEBDAV_ENDPOINT": "http://nowhere.invalid:8081"' in done.stdout
    assert "has no address" not in done.stderr


EXTRA = ["--set", "*.labels.note=a b", "--set=x.args.MISSPELT=a;b", "$HOME #x", "a'b"]
QUOTED = """--set '*.labels.note=a b' --set=x.args.MISSPELT=a\\;b '$HOME #x' "a'b\""""


def test_extra_arguments_arrive_whole(tree: Tree) -> None:
    command = ["buildx", "bake", "--file", "rocm-bake.hcl", *EXTRA, "cache-probe"]
    assert tree.asked("build-cache-probe", BAKE_EXTRA=QUOTED)[0] == command
    # On its command line make takes one dollar of two.
    assert tree.asked("build-cache-probe", f"BAKE_EXTRA={QUOTED.replace('$', '$$')}")[0] == command


def test_unbalanced_extra_arguments(tree: Tree) -> None:
    done = tree.make("build-cache-probe", BAKE_EXTRA="--set 'x")
    assert (done.returncode, done.stdout) == (2, "")
    assert 'BAKE_EXTRA is "--set \'x": No closing quotation; quote it as for a shell' in done.stderr


def test_an_argument_that_is_named_like_a_variable_is_refused(tree: Tree, declared: bakefile.BakeFile) -> None:
    for name in declared.variables:
        done = tree.make("build-cache-probe", BAKE_EXTRA=f"--no-cache --set '*.args.{name}=a b'")
        assert (done.returncode, done.stdout) == (2, ""), name
        assert f"--set *.args.{name}=a b: {name} is a bake variable, and an argument of that name" in done.stderr
        assert f"Set it as: {name}='a b' make build-cache-probe" in done.stderr


def test_a_set_in_one_word_is_refused_as_well(tree: Tree) -> None:
    done = tree.make("build-cache-probe", "BAKE_EXTRA=--set=cache-probe.args.RUN_ID=x")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Set it as: RUN_ID=x make build-cache-probe" in done.stderr


@pytest.mark.parametrize(("assignment", "value"), [("*.args.REGISTRY+=x", "x"), ("*.args.REGISTRY", "...")])
def test_a_set_without_a_value_or_with_another_operator_is_refused_as_well(
    tree: Tree, assignment: str, value: str
) -> None:
    done = tree.make("build-cache-probe", BAKE_EXTRA=f"--set {assignment}")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Set it as: REGISTRY={value} make build-cache-probe" in done.stderr


@pytest.mark.parametrize("name", ["ZSTD_SOURCE_VERSION", "MISSPELT"])
def test_another_argument_is_passed_on(tree: Tree, name: str) -> None:
    arguments, _ = tree.asked("build-cache-probe", BAKE_EXTRA=f"--set *.args.{name}=x")
    assert arguments[4:] == ["--set", f"*.args.{name}=x", "cache-probe"]


def test_list_vars_has_every_variable_with_its_source(tree: Tree, declared: bakefile.BakeFile) -> None:
    # Set but empty is unset, wherever.
    set_in = {"REGISTRY": "$(x)", "SOURCE_URL": "a b", "ROCM_VERSION": ""}
    shown = tree.values("RUST_VERSION=1.96", "SDE_EPOCH=", **set_in)
    assert shown.keys() == declared.variables.keys()
    by_source = {name: source for name, (_, source) in shown.items() if source != "default"}
    others = {"REGISTRY": "environment", "SOURCE_URL": "environment", "RUST_VERSION": "make's command line"}
    assert by_source == {**dict.fromkeys(SUPPLIED, "make"), **others}
    assert (shown["RUST_VERSION"][0], shown["REGISTRY"][0], shown["SOURCE_URL"][0]) == ("1.96", "$(x)", "a b")
    for name, (value, source) in shown.items():
        if source == "default":
            assert value == (declared.variables[name].default or '""')


def test_an_unknown_target(tree: Tree) -> None:
    done = tree.make("build-pytorhc")
    assert done.returncode == 2
    assert "build-pytorhc: rocm-bake.hcl has no target or group pytorhc; it has: " in done.stderr


def test_a_syntax_error_is_one_message_with_file_and_line(tree: Tree) -> None:
    lines = (tree.path / "rocm-bake.hcl").read_text().count("\n")
    with (tree.path / "rocm-bake.hcl").open("a") as file:
        file.write('variable "X" {\n  default = = "a"\n}\n')
    for goal in ("build-cache-probe", "list-vars"):
        done = tree.make(goal)
        assert (done.returncode, done.stdout) == (2, "")
        message, by_make = done.stderr.splitlines()
        assert message.startswith(f"rocm-bake.hcl:{lines + 2}: not valid HCL")
        assert by_make.startswith("make: *** [Makefile:")


def test_a_changed_default_counts_at_once_whatever_the_files_time(tree: Tree) -> None:
    bake_file, kept = tree.path / "rocm-bake.hcl", tree.path / "kept.hcl"
    shutil.copy2(bake_file, kept)
    tree.edit("rocm-bake.hcl", '"1.95"', '"1.96"')
    assert tree.values()["RUST_VERSION"] == ("1.96", "default")
    kept.replace(bake_file)
    assert tree.values()["RUST_VERSION"] == ("1.95", "default")


def test_a_tree_without_git(tree: Tree) -> None:
    shutil.rmtree(tree.path / ".git")
    done = tree.make("build-cache-probe")
    assert done.returncode == 0
    assert '"VCS_REF": "", ' in done.stdout or '"VCS_REF": ""}' in done.stdout
    assert "VCS_REF and BUILD_DATE stay empty: " in done.stderr


def test_a_tree_without_git_in_another_one_s(tree: Tree) -> None:
    shutil.rmtree(tree.path / ".git")
    outer = tree.path.parent
    for command in (["init", "--quiet"], ["commit", "--quiet", "--allow-empty", "--message", "another"]):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.com", *command], cwd=outer, check=True)
    done = tree.make("build-cache-probe")
    assert done.returncode == 0
    assert '"VCS_REF": "", ' in done.stdout or '"VCS_REF": ""}' in done.stdout
    assert "VCS_REF and BUILD_DATE stay empty: " in done.stderr
    assert "tracks none of rocm-bake.hcl, buildspec, docker" in done.stderr


def test_make_and_the_archive_for_the_box_share_their_folder(tree: Tree) -> None:
    def kept() -> dict[str, bytes]:
        return {file.name: file.read_bytes() for file in (tree.path / ".build").iterdir()}

    of_make = kept()
    built = context.build(tree.path)
    archive = {built.path.name: built.path.read_bytes()}
    assert kept() == {**of_make, **archive}
    assert tree.make("-n", "build-cache-probe").returncode == 0
    assert kept() == {**of_make, **archive}
    # What make keeps is not in the archive: it would be another one after each change of a default.
    shutil.rmtree(tree.path / ".build")
    assert context.build(tree.path) == built
    assert kept() == archive
    assert tree.make("-n", "build-cache-probe").returncode == 0
    assert kept() == {**of_make, **archive}


def test_nothing_to_run_starts_no_python(tree: Tree, tmp_path: Path) -> None:
    key = (tree.path / ".build" / "venv.mk").read_text().removeprefix("VENV_KEY := ").strip()
    environment = tmp_path / "cache" / "rocm-build-box" / f"python-{key}"
    python = program(environment / "bin" / "python", "#!/bin/sh\nexit 9\n")
    (environment / ".complete").touch()
    shutil.copy(python, tree.docker.parent / "python3")
    cache = str(tmp_path / "cache")
    assert tree.make("-n", "build-cache-probe", XDG_CACHE_HOME=cache).returncode == 0
    assert tree.make("help", XDG_CACHE_HOME=cache).returncode == 0
    # The same Python, when there is something to run.
    assert tree.make("build-cache-probe", XDG_CACHE_HOME=cache).returncode != 0
