"""The registry refuses the image: the box's role may not put one."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox, without_action
from tests.builds import bake_of


def build(kept: KeptBox) -> BuildStatus:
    role = kept.job.foundation.outputs()["boxRoleArn"].rpartition("/")[2]
    with bake_of(kept, "RUN true"), without_action(kept, role, "ecr:PutImage"):
        return kept.build()
