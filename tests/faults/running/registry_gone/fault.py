"""The registry does not answer any more when the image is to be pushed."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.builds import bake_of


def build(kept: KeptBox) -> BuildStatus:
    with bake_of(kept, "RUN true"), kept.job.region.cloud.faults.unreachable("registry", "*Upload*") as fault:
        status = kept.build()
    assert fault.met > 0
    return status
