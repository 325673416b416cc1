"""A step fills the file system of Docker's directory with empty files."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.builds import bake_of, docker_file_system, docker_uses

# A shell ends when it cannot open a file for a built-in command.
FILL = "RUN mkdir /hoard; cd /hoard; n=0; while true; do : >$n; n=$((n+1)); done"


def build(kept: KeptBox) -> BuildStatus:
    used = docker_uses(kept, "iused")
    with docker_file_system(kept, f"nr_inodes={used + 8192}"), bake_of(kept, FILL):
        return kept.build()
