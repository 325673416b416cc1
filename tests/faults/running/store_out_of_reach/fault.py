"""For a minute no packet between the box, or its build steps, and S3 arrives; status and log are stored afterwards."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

from buildspec.box.status import BuildStatus
from rehearsal.network import S3_ADDRESS
from tests.boxes import KeptBox
from tests.builds import FILES, compiling

MINUTE = timedelta(minutes=1)
RULES = "".join(
    f"add chain inet fault {hook} {{ type filter hook {hook} priority -20; }}\n"
    f"add rule inet fault {hook} ip daddr {S3_ADDRESS} drop\n"
    for hook in ("output", "forward")
)


def build(kept: KeptBox) -> BuildStatus:
    with compiling(kept, FILES, pause=1.0):
        begun = datetime.now(UTC)
        kept.run("nft", f"add table inet fault\n{RULES}")
        over = threading.Timer(MINUTE.total_seconds(), kept.run, ["nft", "delete", "table", "inet", "fault"])
        over.start()
        status = kept.wait_for_build()
        over.join()
    assert datetime.now(UTC) - begun > MINUTE
    return status
