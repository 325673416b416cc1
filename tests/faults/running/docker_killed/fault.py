"""Docker dies while a step compiles, and systemd starts it again."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox, until
from tests.faults.builds import CacheWatch, docker_is, slow_compile


def build(kept: KeptBox) -> BuildStatus:
    with slow_compile(kept, files=600):
        watch = CacheWatch.begin(kept)
        kept.start_build()
        watch.wait_for_writes(1)
        kept.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "docker.service")
        status = kept.wait_for_build()
    until("docker is back", lambda: docker_is(kept, "active"))
    return status
