"""The runner is killed by SIGKILL while a step compiles, so that nothing of its own can clean up."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import UNIT, KeptBox
from tests.builds import compiling


def build(kept: KeptBox) -> BuildStatus:
    with compiling(kept):
        assert kept.secrets_left() != []
        kept.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", UNIT)
        return kept.wait_for_build()
