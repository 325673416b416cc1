"""Docker dies while a step compiles, and systemd starts it again."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox, until
from tests.builds import compiling, docker_is


def build(kept: KeptBox) -> BuildStatus:
    with compiling(kept):
        kept.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "docker.service")
        status = kept.wait_for_build()
    until("docker is back", lambda: docker_is(kept, "active"))
    return status
