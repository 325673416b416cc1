"""The seed page's example commands, run as they are and as corrected."""

from __future__ import annotations

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


def test_credentials_command(bake: Bake, tmp_path: Path) -> None:
    source = tmp_path / "awscreds"
    source.touch()
    printed = bake.print("--set", f"*.secrets=id=aws,src={source}", "cupy-wheel")["target"]
    assert printed.keys() == {"cupy-wheel", "base", "rocm", "sccache"}
    assert all(target["secret"] == [{"id": "aws", "src": str(source)}] for target in printed.values())
