"""The box is powered off while a step compiles."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from rehearsal.builds import read_status, wait_for_power_off
from tests.boxes import KeptBox, read_token
from tests.builds import compiling


def build(kept: KeptBox) -> tuple[BuildStatus, str]:
    """The build's status, and the token that its steps had."""
    with compiling(kept):
        token = read_token(kept.machine)
        kept.run("systemctl", "poweroff", "--no-block")
        wait_for_power_off(kept.job.region, kept.outputs)
    status = read_status(kept.job.region, kept.outputs)
    assert status is not None
    return status, token
