"""The runner is killed by SIGKILL, so that nothing of its own can clean up."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from rehearsal.builds import read_status
from tests.boxes import KeptBox, until
from tests.faults.builds import UNIT


def build(kept: KeptBox) -> BuildStatus:
    kept.start_build()

    def probing() -> bool:
        status = read_status(kept.job.region, kept.outputs)
        return status is not None and (status["state"], status["phase"]) == ("running", "pre_build")

    until("the phase pre_build", probing)
    assert kept.secrets_left() != []
    kept.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", UNIT)
    return kept.wait_for_build()
