"""The seed page's example commands, run as they are and as corrected."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.bake.seed_examples import EXAMPLES, Example
from tests.bake.support import Bake, changes


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_the_pages_command(bake: Bake, example: Example) -> None:
    changed = changes(bake.flat("pytorch"), bake.flat(*example.arguments))
    settings = [argument.removeprefix("*.args.") for argument in example.arguments if argument.startswith("*.")]
    given = dict(setting.split("=", 1) for setting in settings)
    # Each target of the build has the arg afterwards, whether it takes it or not, and nothing else has changed.
    targets = {"pytorch", "base", "rocm", "sccache"}
    assert changed == {f"{target}.args.{name}": value for target in targets for name, value in given.items()}
    assert example.reaches is None or changed[example.reaches] == example.value


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_the_correction(bake: Bake, example: Example) -> None:
    changed = changes(bake.flat("pytorch"), bake.flat("pytorch", **example.variables))
    assert changed[example.path] == example.value
    assert not {path for path in changed if ".args." in path} - {example.path}


def documented(checkout: Path) -> list[str]:
    """The commands in the page's code blocks, with continued lines joined."""
    page = re.sub(r" *\\\n *", " ", (checkout / "docs" / "bake-variables.md").read_text())
    return [line for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) for line in block.splitlines()]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
def test_the_correction_is_documented(checkout: Path, example: Example) -> None:
    settings = " ".join(f"{name}={value}" for name, value in example.variables.items())
    ways = (f"{settings} make build-pytorch", f"{settings} docker buildx bake -f rocm-bake.hcl pytorch")
    assert len([command for command in documented(checkout) if command in ways]) == 1


def test_what_the_page_has_otherwise_is_documented(checkout: Path) -> None:
    page = (checkout / "docs" / "bake-variables.md").read_text()
    _, section = page.split("\n## What an earlier version of this page had otherwise\n")
    names = [name for example in EXAMPLES for name in example.variables]
    others = ["52 variables", "REGISTRY_INSECURE=true", "--duration-seconds"]
    assert [statement for statement in (*names, *others) if statement not in section] == []


def test_the_credentials_command_is_documented_as_buildx_takes_it(bake: Bake, checkout: Path, tmp_path: Path) -> None:
    (command,) = [command for command in documented(checkout) if "*.secrets" in command]
    source = tmp_path / "awscreds"
    source.touch()
    words = shlex.split(command.replace("/tmp/awscreds", str(source)))
    assert words[:5] == ["docker", "buildx", "bake", "-f", "rocm-bake.hcl"]
    assert bake.print(*words[5:])["target"].keys() == {"cupy-wheel", "base", "rocm", "sccache"}


def test_credentials_command(bake: Bake, tmp_path: Path) -> None:
    source = tmp_path / "awscreds"
    source.touch()
    printed = bake.print("--set", f"*.secrets=id=aws,src={source}", "cupy-wheel")["target"]
    assert printed.keys() == {"cupy-wheel", "base", "rocm", "sccache"}
    assert all(target["secret"] == [{"id": "aws", "src": str(source)}] for target in printed.values())
