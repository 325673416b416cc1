"""The session that a step writes the compile cache with ends before STS said it would."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.builds import FILES, compiling, forget_session, sessions_of


def build(kept: KeptBox) -> BuildStatus:
    forget_session(kept)
    with compiling(kept, FILES, writes=3, pause=1.0) as watch:
        kept.job.region.cloud.keyring.expire(sessions_of(kept)[-1])
        status = kept.wait_for_build()
    forget_session(kept)
    refused = [write["status"] for write in watch.writes()].count(400)
    assert status["cache"] is not None
    assert status["cache"]["writeErrors"] == refused > 0
    return status
