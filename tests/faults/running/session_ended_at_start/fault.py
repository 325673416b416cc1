"""The session has ended when the build gets it."""

from __future__ import annotations

from datetime import timedelta

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.builds import forget_session, short_sessions


def build(kept: KeptBox) -> BuildStatus:
    forget_session(kept)
    with short_sessions(kept, timedelta(0)):
        return kept.build()
