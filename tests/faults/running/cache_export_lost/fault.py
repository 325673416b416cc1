"""The registry loses the layer cache, and the bake succeeds: that is what ignore-error=true means."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from rehearsal.cloud.errors import ApiError
from tests.boxes import KeptBox
from tests.builds import bake_of


def build(kept: KeptBox) -> BuildStatus:
    outputs = kept.job.foundation.outputs()
    reference = f"{outputs['registry']}/{outputs['registryName']}:fault-cache"
    cache = f'  cache-to = ["type=registry,ref={reference},mode=max,image-manifest=true,ignore-error=true"]\n'
    refused = ApiError(403, "DENIED", "refused on demand")
    faults = kept.job.region.cloud.faults
    with bake_of(kept, "RUN true", more=cache):
        with faults.refuse(refused, "registry", "PutImage", path="*/manifests/fault-cache"):
            lost = kept.build()
        stored = kept.build()
    assert (stored["state"], stored["failingStep"]) == ("succeeded", None)
    return lost
