"""Docker is too old. It says so itself: what the box asks is answered by a program in front of the real one."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox, file_on

# Found on PATH before the real one.
PROGRAM = "/usr/local/bin/docker"
DOCKER = '#!/bin/sh\n[ "$1" = version ] && echo 19.03.15 && exit\nexec /usr/bin/docker "$@"\n'


def build(kept: KeptBox) -> BuildStatus:
    with file_on(kept, PROGRAM, DOCKER):
        kept.run("chmod", "755", PROGRAM)
        return kept.build()
