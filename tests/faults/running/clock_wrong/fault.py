"""What the box signs is an hour old: it cannot store its status then, which is on the box, and in the journal."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest

from buildspec.box.status import BuildStatus
from rehearsal.cloud.requests import ApiRequest
from tests.boxes import KeptBox
from tests.faults.builds import forget_session


def build(kept: KeptBox) -> BuildStatus:
    header = ApiRequest.header

    def an_hour_late(self: ApiRequest, name: str) -> str | None:
        value = header(self, name)
        if name == "x-amz-date" and value is not None and self.source_address == kept.machine.address:
            signed = datetime.strptime(value, "%Y%m%dT%H%M%S%z") - timedelta(hours=1)
            return f"{signed:%Y%m%dT%H%M%SZ}"
        return value

    forget_session(kept)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ApiRequest, "header", an_hour_late)
        kept.start_build()
        kept.wait_for_end()
    status: BuildStatus = json.loads(kept.run("cat", "/var/lib/rocm-build-box/status.json"))
    return status
