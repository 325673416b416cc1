"""The clock of the runner, its commands and the credential service is an hour late: AWS takes nothing that they sign.

So the status cannot be stored either: it is on the box, and in the journal.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from buildspec.box import config as box
from buildspec.box.status import BuildStatus
from rehearsal.builds import read_status
from tests.boxes import UNIT, KeptBox, file_on
from tests.builds import CREDENTIALS_UNIT, drop_in, forget_session

LIBRARY = "/opt/clock.so"


def build(kept: KeptBox) -> BuildStatus:
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "clock.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", built, Path(__file__).parent / "clock.c"], check=True)
        library = built.read_bytes()
    forget_session(kept)
    with file_on(kept, LIBRARY, library), drop_in(kept, f"Environment=LD_PRELOAD={LIBRARY}", UNIT, CREDENTIALS_UNIT):
        kept.start_build()
        kept.wait_for_end()
        forget_session(kept)
    assert read_status(kept.job.region, kept.outputs) is None
    kept.run("journalctl", "--sync")
    journal = kept.run("journalctl", "--unit", UNIT, "--lines=200", "--output=cat")
    assert "finish: report failed:" in journal
    assert "RequestTimeTooSkewed" in journal
    status: BuildStatus = json.loads(kept.run("cat", str(box.STATE_FILE)))
    return status
