"""S3 answers four requests with a 500.

sccache does not ask again: what it could not store, the next build compiles again, and this one says so.
"""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.builds import FILES, cached, compiling


def build(kept: KeptBox) -> BuildStatus:
    faults = kept.job.region.cloud.faults
    with (
        compiling(kept, FILES, pause=1.0),
        faults.fail("s3", "GetObject", path=cached(kept), times=2) as reads,
        faults.fail("s3", "PutObject", path=cached(kept), times=2) as writes,
    ):
        status = kept.wait_for_build()
    assert (reads.met, writes.met) == (2, 2)
    return status
