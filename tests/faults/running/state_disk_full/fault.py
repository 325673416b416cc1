"""The file system of the build's status has no space left."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.builds import full_file_system


def build(kept: KeptBox) -> BuildStatus:
    with full_file_system(kept, "/var/lib/rocm-build-box", "size=64k"):
        return kept.build()
