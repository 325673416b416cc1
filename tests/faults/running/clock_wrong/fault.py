"""The clock of all that the box runs for a build is an hour late: AWS takes nothing that is signed by it.

So the status cannot be stored either: it is on the box, and in the journal.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox, file_on
from tests.faults.builds import CREDENTIALS_UNIT, UNIT, forget_session

LIBRARY = "/opt/clock.so"


def build(kept: KeptBox) -> BuildStatus:
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "clock.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", built, Path(__file__).parent / "clock.c"], check=True)
        library = built.read_bytes()
    forget_session(kept)
    with ExitStack() as changed:
        changed.enter_context(file_on(kept, LIBRARY, library))
        for unit in (UNIT, CREDENTIALS_UNIT):
            late = f"[Service]\nEnvironment=LD_PRELOAD={LIBRARY}\n"
            changed.enter_context(file_on(kept, f"/run/systemd/system/{unit}.d/clock.conf", late))
        kept.run("systemctl", "daemon-reload")
        kept.start_build()
        kept.wait_for_end()
        forget_session(kept)
    kept.run("systemctl", "daemon-reload")
    status: BuildStatus = json.loads(kept.run("cat", "/var/lib/rocm-build-box/status.json"))
    return status
