"""Somebody stops Docker while a step compiles."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.builds import compiling


def build(kept: KeptBox) -> BuildStatus:
    with compiling(kept):
        kept.run("systemctl", "stop", "docker.socket", "docker.service")
        return kept.wait_for_build()
