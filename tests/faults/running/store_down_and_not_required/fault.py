"""S3 answers nothing about the compile cache, and REQUIRE_SCCACHE is 0: the build goes on without, and says why."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.builds import bake_variable, cached, slow_compile


def build(kept: KeptBox) -> BuildStatus:
    with (
        bake_variable(kept, "REQUIRE_SCCACHE", "0"),
        slow_compile(kept),
        kept.job.region.cloud.faults.unreachable("s3", path=cached(kept)),
    ):
        return kept.build()
