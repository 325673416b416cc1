"""S3 answers nothing about the compile cache, which the build requires: it is refused before anything compiles."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.builds import cached, slow_compile


def build(kept: KeptBox) -> BuildStatus:
    with slow_compile(kept), kept.job.region.cloud.faults.unreachable("s3", path=cached(kept)):
        return kept.build()
