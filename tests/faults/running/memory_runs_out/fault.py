"""A compile step needs more memory than there is: the kernel kills it."""

from __future__ import annotations

import subprocess

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox, until
from tests.builds import bake_of, compile_step
from tests.control_group import small_group

# It keeps its last lines, of which there is one that does not end; known by its number.
EATER = "tail --lines=424242"
EAT = f"sh -c '(sleep 10; head --bytes=1G /dev/zero) | {EATER} >/dev/null'"


def build(kept: KeptBox) -> BuildStatus:
    with small_group(f"fault-{kept.outputs.instance_id}") as members, bake_of(kept, compile_step(EAT)):
        kept.start_build()
        until("the step", lambda: eater() is not None)
        members.write_text(str(eater()))
        return kept.wait_for_build()


def eater() -> int | None:
    """The step's process, as this machine numbers it."""
    found = subprocess.run(["pgrep", "--exact", "--full", EATER], check=False, capture_output=True, text=True)
    return int(found.stdout) if found.stdout else None
