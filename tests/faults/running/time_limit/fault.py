"""The deadline comes while a step compiles."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox, file_on
from tests.faults.builds import UNIT, CacheWatch, slow_compile


def build(kept: KeptBox) -> BuildStatus:
    with slow_compile(kept, files=600):
        watch = CacheWatch.begin(kept)
        kept.start_build()
        watch.wait_for_writes(1)
        with file_on(kept, f"/run/systemd/system/{UNIT}.d/over.conf", "[Service]\nRuntimeMaxSec=1\n"):
            # The time counts from the start of the unit, which was longer ago.
            kept.run("systemctl", "daemon-reload")
            status = kept.wait_for_build()
        kept.run("systemctl", "daemon-reload")
    return status
