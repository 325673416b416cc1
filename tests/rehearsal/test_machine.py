"""What is read of a booted box's processes, which end when they like."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from rehearsal.machine import first_child


def test_a_process_has_its_first_child() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 60 & wait"]) as parent:
        while first_child(parent.pid) is None:
            assert parent.poll() is None
        child = first_child(parent.pid)
        assert child is not None
        assert Path(f"/proc/{child}/stat").read_text().split()[3] == str(parent.pid)
        os.kill(child, 15)


def test_a_process_that_is_gone_has_none() -> None:
    parent = subprocess.Popen(["true"])
    parent.wait()
    assert first_child(parent.pid) is None


@pytest.mark.parametrize("ended", [FileNotFoundError, ProcessLookupError])
def test_a_process_that_ends_while_it_is_looked_at_has_none(
    ended: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_text(_path: Path) -> str:
        raise ended

    monkeypatch.setattr(Path, "read_text", read_text)
    assert first_child(os.getpid()) is None
