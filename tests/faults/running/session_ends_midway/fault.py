"""The session that a step writes the compile cache with ends before STS said it would."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.faults.builds import CacheWatch, forget_session, sessions_of, slow_compile


def build(kept: KeptBox) -> BuildStatus:
    forget_session(kept)
    with slow_compile(kept):
        watch = CacheWatch.begin(kept)
        kept.start_build()
        watch.wait_for_writes(3)
        kept.job.region.cloud.keyring.expire(sessions_of(kept)[-1])
        status = kept.wait_for_build()
    forget_session(kept)
    refused = [write["status"] for write in watch.writes()].count(400)
    assert status["cache"] is not None
    assert status["cache"]["writeErrors"] == refused > 0
    return status
