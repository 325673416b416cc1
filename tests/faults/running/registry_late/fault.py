"""The registry does not answer the first two times: it is asked again before the bake."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.builds import bake_of


def build(kept: KeptBox) -> BuildStatus:
    with bake_of(kept, "RUN true"), kept.job.region.cloud.faults.unreachable("registry", times=2) as fault:
        status = kept.build()
    assert fault.met == 2
    return status
