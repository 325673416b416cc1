"""From some moment on S3 stores nothing."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.builds import FILES, cached, compiling


def build(kept: KeptBox) -> BuildStatus:
    with (
        compiling(kept, FILES, pause=1.0),
        kept.job.region.cloud.faults.fail("s3", "PutObject", path=cached(kept)) as fault,
    ):
        status = kept.wait_for_build()
    assert fault.met > 0
    return status
