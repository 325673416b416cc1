"""The runner is killed by SIGKILL, so that nothing of its own can clean up."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox, until
from tests.faults.builds import UNIT, is_in


def build(kept: KeptBox) -> BuildStatus:
    kept.start_build()
    until("the probes", lambda: is_in(kept, "pre_build"))
    assert kept.secrets_left() != []
    kept.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", UNIT)
    return kept.wait_for_build()
