"""STS throttles the box three times: the box asks again, and for one session only."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.builds import forget_session, sessions_of, slow_compile


def build(kept: KeptBox) -> BuildStatus:
    forget_session(kept)
    issued = len(sessions_of(kept))
    with slow_compile(kept), kept.job.region.cloud.faults.throttle("sts", "AssumeRole", times=3) as fault:
        status = kept.build()
    assert fault.met == 3
    assert len(sessions_of(kept)) == issued + 1
    return status
