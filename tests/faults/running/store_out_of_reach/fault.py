"""All of S3 does not answer the box for a minute, so that the status and the log cannot be stored either."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.faults.builds import CacheWatch, slow_compile


def build(kept: KeptBox) -> BuildStatus:
    with slow_compile(kept):
        watch = CacheWatch.begin(kept)
        kept.start_build()
        watch.wait_for_writes(2)
        begun = datetime.now(UTC)
        # Not of reads: the operator looks at the status meanwhile.
        with kept.job.region.cloud.faults.unreachable("s3", "PutObject", lasting=60.0):
            status = kept.wait_for_build()
    assert datetime.now(UTC) - begun > timedelta(seconds=60)
    return status
