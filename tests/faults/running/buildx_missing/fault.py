"""There is no buildx: a plugin that is no program counts as none."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.builds import other_buildx


def build(kept: KeptBox) -> BuildStatus:
    with other_buildx(kept, ""):
        return kept.build()
