"""`pulumi up` while a build runs: without changes it does nothing, with some it is refused, and the build goes on.

The build is stopped at the end, which is what it comes to.
"""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import BOX, UNIT, KeptBox
from tests.builds import compiling


def build(kept: KeptBox) -> BuildStatus:
    box = kept.job.box
    with compiling(kept) as watch:
        same = box.attempt("up", "--yes", "--skip-preview", "--expect-no-changes")
        box.configure({**BOX, "keepBox": True, "bakeVariables": {"SCCACHE_LOG": "info"}})
        changed = box.attempt("up", "--yes", "--skip-preview")
        box.configure({**BOX, "keepBox": True})
        watch.wait_for_writes(len(watch.writes()) + 1)
        kept.run("systemctl", "stop", UNIT)
        status = kept.wait_for_build()
    assert same.returncode == 0, same.stdout + same.stderr
    assert changed.returncode != 0
    assert f"box {kept.outputs.instance_id} of stack dev is running" in changed.stdout + changed.stderr
    return status
