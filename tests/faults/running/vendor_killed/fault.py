"""The credential service is killed while a step compiles: systemd starts it again, and the step goes on."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.faults.builds import CREDENTIALS_UNIT, CacheWatch, forget_session, slow_compile


def build(kept: KeptBox) -> BuildStatus:
    forget_session(kept)
    with slow_compile(kept):
        watch = CacheWatch.begin(kept)
        kept.start_build()
        watch.wait_for_writes(2)
        kept.run("systemctl", "kill", "--signal=KILL", CREDENTIALS_UNIT)
        status = kept.wait_for_build()
    assert int(kept.run("systemctl", "show", "--property=NRestarts", "--value", CREDENTIALS_UNIT)) >= 1
    return status
