"""A compile step needs more memory than there is: the kernel kills it."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.faults.builds import BUILDER, bake_of, compile_step

# tail keeps a line whole.
EAT = "sh -c 'head --bytes=4G /dev/zero | tail'"


def build(kept: KeptBox) -> BuildStatus:
    with bake_of(kept, compile_step(EAT)):
        kept.run("docker", "update", "--memory=512m", "--memory-swap=512m", BUILDER)
        try:
            return kept.build()
        finally:
            kept.run("docker", "update", "--memory=-1", "--memory-swap=-1", BUILDER)
