"""Each answer of S3 about the compile cache takes a second more."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.builds import cached, slow_compile

FILES = 4


def build(kept: KeptBox) -> BuildStatus:
    with slow_compile(kept, FILES), kept.job.region.cloud.faults.slow(1.0, "s3", path=cached(kept)) as fault:
        status = kept.build()
    assert fault.met > 2 * FILES
    return status
