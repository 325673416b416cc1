"""The time limit comes while a step compiles."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import UNIT, KeptBox
from tests.builds import compiling, drop_in


def build(kept: KeptBox) -> BuildStatus:
    # The time counts from the start of the unit, which was longer ago.
    with compiling(kept), drop_in(kept, "RuntimeMaxSec=1", UNIT):
        return kept.wait_for_build()
