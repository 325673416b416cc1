"""One RUN that outlives several of the sessions it writes the compile cache with.

AWS's shortest session is 900 s. Here STS ends them after 125 s, and says so: sccache, which asks for the next one when
less than two minutes are left, soon does, as near the end of a real one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.builds import CacheWatch, forget_session, sessions_of, short_sessions, slow_compile

pytestmark = pytest.mark.slow

SESSION = timedelta(seconds=125)
FILES, PAUSE_SECONDS = 45, 3.0


@dataclass
class LongStep:
    """A build with a compile step that is longer than a session."""

    status: BuildStatus
    writes: list[dict[str, Any]]
    """Its PUTs as S3 logged them."""
    sessions: list[str]
    """The key ids that STS issued for the cache role meanwhile."""


@pytest.fixture(scope="module")
def long_step(kept: KeptBox) -> LongStep:
    forget_session(kept)
    issued_before = len(sessions_of(kept))
    watch = CacheWatch.begin(kept)
    with short_sessions(kept, SESSION), slow_compile(kept, FILES, PAUSE_SECONDS):
        status = kept.build()
    return LongStep(status, watch.writes(), sessions_of(kept)[issued_before:])


def expiry(kept: KeptBox, key_id: str) -> datetime:
    """When STS said that this key would end."""
    (entry,) = (entry for entry in kept.job.issued() if entry["value"] == key_id)
    return datetime.fromisoformat(entry["expires"])


def test_the_step_writes_with_one_session_after_the_other(kept: KeptBox, long_step: LongStep) -> None:
    status = long_step.status
    assert (status["state"], status["failingStep"]) == ("succeeded", None)
    assert status["cache"] is not None
    assert [step["step"] for step in status["cache"]["steps"]] == ["fault"]
    counts = {kind: status["cache"][kind] for kind in ("hits", "misses", "errors", "writeErrors")}
    assert counts == {"hits": 0, "misses": FILES, "errors": 0, "writeErrors": 0}
    assert [write["status"] for write in long_step.writes] == [200] * FILES
    used = list(dict.fromkeys(write["key"] for write in long_step.writes))
    assert len(used) >= 2
    assert set(used) <= set(long_step.sessions)
    # The step outlived the session that it began with, and never went back to one.
    assert datetime.fromisoformat(long_step.writes[-1]["time"]) > expiry(kept, used[0])
    assert [key for key in long_step.sessions if key in used] == used


def test_the_first_session_is_refused_once_it_has_ended(kept: KeptBox, long_step: LongStep) -> None:
    first = kept.job.region.cloud.keyring.find(long_step.writes[0]["key"])
    assert first is not None
    bucket, _, key = long_step.writes[0]["path"].lstrip("/").partition("/")
    with pytest.raises(ClientError) as refused:
        kept.job.region.cloud.client("s3", first).get_object(Bucket=bucket, Key=key)
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert refused.value.response["Error"]["Code"] == "ExpiredToken"
