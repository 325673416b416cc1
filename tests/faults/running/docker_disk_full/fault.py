"""A step fills the file system of Docker's directory."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.builds import bake_of, docker_file_system, docker_uses

FILL = "RUN head --bytes=64G /dev/zero >/hoard"


def build(kept: KeptBox) -> BuildStatus:
    used_kib = docker_uses(kept, "used")
    with docker_file_system(kept, f"size={used_kib + 131_072}k"), bake_of(kept, FILL):
        return kept.build()
