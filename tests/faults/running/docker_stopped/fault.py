"""Somebody stops Docker while a step compiles."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.faults.builds import CacheWatch, slow_compile


def build(kept: KeptBox) -> BuildStatus:
    with slow_compile(kept, files=600):
        watch = CacheWatch.begin(kept)
        kept.start_build()
        watch.wait_for_writes(1)
        kept.run("systemctl", "stop", "docker.socket", "docker.service")
        return kept.wait_for_build()
