"""A bake file that cannot be read, as `pulumi preview` and `pulumi up` report it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pulumi import RunError

from infra import settings
from tests.program.harness import run


@pytest.mark.parametrize("layer", settings.LAYERS)
def test_a_syntax_error_is_one_message_with_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layer: str
) -> None:
    text = (settings.CHECKOUT / "rocm-bake.hcl").read_text()
    path = tmp_path / "rocm-bake.hcl"
    path.write_text(f'{text}variable "X" {{\n  default = = "a"\n}}\n')
    monkeypatch.setattr(settings, "CHECKOUT", tmp_path)
    with pytest.raises(RunError) as refused:
        run("dev", {"layer": layer}, preview=True)
    line = text.count("\n") + 2
    message = rf"{re.escape(str(path))}:{line}: not valid HCL: unexpected input at column \d+"
    assert re.fullmatch(message, str(refused.value))
