"""The credential service is killed while a step compiles: systemd starts it again, and it vends the next session."""

from __future__ import annotations

from datetime import timedelta

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.builds import CREDENTIALS_UNIT, FILES, compiling, forget_session, sessions_of, short_sessions


def build(kept: KeptBox) -> BuildStatus:
    forget_session(kept)
    # sccache asks for the next session when less than two minutes are left.
    with short_sessions(kept, timedelta(seconds=125)), compiling(kept, FILES, pause=1.5) as watch:
        kept.run("systemctl", "kill", "--signal=KILL", CREDENTIALS_UNIT)
        issued = sessions_of(kept)
        status = kept.wait_for_build()
        assert int(kept.run("systemctl", "show", "--property=NRestarts", "--value", CREDENTIALS_UNIT)) >= 1
    assert watch.writes()[-1]["key"] not in issued
    return status
