"""AWS at its worst while a box builds: failing, slow, silent, refusing. A build survives it, or says what it was."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from buildspec.box.status import BuildStatus
from rehearsal.cloud.errors import ApiError
from rehearsal.cloud.requests import ApiRequest
from tests.booted.conftest import KeptBox
from tests.booted.faults import (
    CacheWatch,
    bake_of,
    forget_session,
    sessions_of,
    short_sessions,
    slow_compile,
    without_action,
)

FILES = 12
BAKE_FAILED = "build: python3 -m buildspec.box.bake: exit code 1: target cache-probe: "
UNUSED = "verify: the compile cache was asked for and not used: "
VERIFY_FAILED = "post_build: python3 -m buildspec.box.verify: exit code 1"
CONFIG_FILE = "/etc/rocm-build-box/box.json"


@pytest.fixture(autouse=True)
def no_secret_is_left(kept: KeptBox) -> Iterator[None]:
    yield
    assert kept.secrets_left() == []


def cached(kept: KeptBox) -> str:
    """The pattern of the compile cache's paths."""
    outputs = kept.job.foundation.outputs()
    return f"/{outputs['bucketName']}/{outputs['cachePrefix']}/*"


def counts(status: BuildStatus) -> dict[str, int]:
    assert status["cache"] is not None
    return {kind: status["cache"][kind] for kind in ("misses", "errors", "writeErrors")}


def survived(status: BuildStatus) -> None:
    assert (status["state"], status["failingStep"], status["warnings"]) == ("succeeded", None, [])
    assert counts(status) == {"misses": FILES, "errors": 0, "writeErrors": 0}


def failed_before_the_bake(kept: KeptBox, status: BuildStatus, probe: str) -> list[str]:
    """What the probe that failed said."""
    assert (status["state"], status["phase"], status["exitCode"]) == ("failed", "pre_build", 1)
    assert status["failingStep"] == f"pre_build: python3 -m buildspec.box.{probe}: exit code 1"
    assert "buildspec.box.bake" not in kept.job.log_of(kept.outputs)
    return status["lastLines"]


def test_a_store_that_fails_now_and_then(kept: KeptBox) -> None:
    """sccache does not ask again: what it could not store, the next build compiles again, and this one says so."""
    faults = kept.job.region.cloud.faults
    with slow_compile(kept, FILES):
        watch = CacheWatch.begin(kept)
        kept.start_build()
        watch.wait_for_writes(2)
        with (
            faults.fail("s3", "GetObject", path=cached(kept), times=2) as reads,
            faults.fail("s3", "PutObject", path=cached(kept), times=2) as writes,
        ):
            status = kept.wait_for_build()
    assert (reads.met, writes.met) == (2, 2)
    assert (status["state"], status["phase"], status["failingStep"]) == ("failed", "post_build", VERIFY_FAILED)
    assert counts(status) == {"misses": FILES, "errors": 2, "writeErrors": 2}
    assert f"{UNUSED}2 results could not be written to the cache" in status["lastLines"]


def test_a_store_that_is_slow(kept: KeptBox) -> None:
    with slow_compile(kept, FILES), kept.job.region.cloud.faults.slow(2.0, "s3", path=cached(kept)) as fault:
        status = kept.build()
    assert fault.met > 2 * FILES
    survived(status)


def test_a_store_that_fails_for_good(kept: KeptBox) -> None:
    with slow_compile(kept, FILES):
        watch = CacheWatch.begin(kept)
        kept.start_build()
        watch.wait_for_writes(2)
        with kept.job.region.cloud.faults.fail("s3", "PutObject", path=cached(kept)):
            status = kept.wait_for_build()
    assert (status["state"], status["phase"], status["exitCode"]) == ("failed", "post_build", 1)
    assert status["failingStep"] == VERIFY_FAILED
    lost = counts(status)["writeErrors"]
    assert lost > 0
    assert f"{UNUSED}{lost} results could not be written to the cache" in status["lastLines"]
    assert list(status["images"]) == ["cache-probe"]


def test_a_store_that_is_out_of_reach_for_a_minute(kept: KeptBox) -> None:
    """All of S3, so the status and the log cannot be stored either while it lasts."""
    with slow_compile(kept, FILES):
        watch = CacheWatch.begin(kept)
        kept.start_build()
        watch.wait_for_writes(2)
        begun = datetime.now(UTC)
        # Of the box only: the operator looks at the status meanwhile.
        with kept.job.region.cloud.faults.unreachable("s3", "PutObject", lasting=60.0):
            status = kept.wait_for_build()
    assert datetime.now(UTC) - begun > timedelta(seconds=60)
    assert (status["state"], status["phase"], status["exitCode"]) == ("failed", "post_build", 1)
    assert status["failingStep"] == VERIFY_FAILED
    lost = counts(status)["writeErrors"]
    assert f"{UNUSED}{lost} results could not be written to the cache" in status["lastLines"]
    assert all(warning.startswith("the status of phase ") for warning in status["warnings"])
    assert "with-sccache fault" in kept.job.log_of(kept.outputs)


def test_a_session_that_has_ended_at_the_start(kept: KeptBox) -> None:
    forget_session(kept)
    with short_sessions(kept, timedelta(0)):
        status = kept.build()
    lines = failed_before_the_bake(kept, status, "cache_probe")
    assert any("s3:PutObject on" in line and "ExpiredToken" in line for line in lines)


def test_sts_that_throttles(kept: KeptBox) -> None:
    forget_session(kept)
    issued = len(sessions_of(kept))
    with slow_compile(kept, FILES), kept.job.region.cloud.faults.throttle("sts", "AssumeRole", times=3) as fault:
        status = kept.build()
    assert fault.met == 3
    assert len(sessions_of(kept)) == issued + 1
    survived(status)


def test_a_registry_that_refuses_the_image(kept: KeptBox) -> None:
    role = kept.job.foundation.outputs()["boxRoleArn"].rpartition("/")[2]
    with bake_of(kept, "RUN true"), without_action(kept, role, "ecr:PutImage"):
        status = kept.build()
    assert (status["state"], status["phase"], status["exitCode"]) == ("failed", "post_build", 1)
    assert status["failingStep"] is not None
    assert status["failingStep"].startswith(BAKE_FAILED)
    assert "because no identity-based policy allows the ecr:PutImage action" in status["failingStep"]
    assert status["images"] == {}


def test_a_registry_that_is_out_of_reach_at_first(kept: KeptBox) -> None:
    faults = kept.job.region.cloud.faults
    with bake_of(kept, "RUN true"), faults.unreachable("registry", lasting=25.0) as fault:
        status = kept.build()
    assert fault.met > 0
    assert (status["state"], status["failingStep"]) == ("succeeded", None)


def test_a_registry_that_goes_away_before_the_push(kept: KeptBox) -> None:
    with bake_of(kept, "RUN true"), kept.job.region.cloud.faults.unreachable("registry", "*Upload*") as fault:
        status = kept.build()
    assert fault.met > 0
    assert (status["state"], status["phase"], status["exitCode"]) == ("failed", "post_build", 1)
    assert status["failingStep"] is not None
    assert status["failingStep"].startswith(BAKE_FAILED)
    assert "failed to push" in status["failingStep"]


@contextmanager
def bake_variable(kept: KeptBox, name: str, value: str) -> Iterator[None]:
    """Another value of a bake variable in the box's configuration."""
    whole = kept.run("cat", CONFIG_FILE)
    config = json.loads(whole)
    config["bakeVariables"][name] = value
    kept.machine.write(CONFIG_FILE, json.dumps(config))
    try:
        yield
    finally:
        kept.machine.write(CONFIG_FILE, whole)


def test_a_registry_with_tls_that_is_taken_for_one_without(kept: KeptBox) -> None:
    with bake_variable(kept, "REGISTRY_INSECURE", "true"):
        status = kept.build()
    lines = failed_before_the_bake(kept, status, "registry_probe")
    registry = kept.job.foundation.outputs()["registry"]
    assert [line for line in lines if line.startswith("registry probe: ")] == [
        f"registry probe: {registry}: REGISTRY_INSECURE is true, and the registry speaks TLS: BuildKit would skip the "
        "check of its certificate without a word; set REGISTRY_INSECURE to false"
    ]


def test_a_registry_that_loses_the_layer_cache(kept: KeptBox) -> None:
    """The bake succeeds: that is what ignore-error=true means."""
    outputs = kept.job.foundation.outputs()
    reference = f"{outputs['registry']}/{outputs['registryName']}:fault-cache"
    cache = f'  cache-to = ["type=registry,ref={reference},mode=max,image-manifest=true,ignore-error=true"]\n'
    refused = ApiError(403, "DENIED", "refused on demand")
    with bake_of(kept, "RUN true", more=cache):
        with kept.job.region.cloud.faults.refuse(refused, "registry", "PutImage", path="*/manifests/fault-cache"):
            lost = kept.build()
        stored = kept.build()
    assert (lost["state"], lost["phase"], lost["failingStep"]) == ("failed", "post_build", VERIFY_FAILED)
    assert list(lost["images"]) == ["cache-probe"]
    said = [line for line in lost["lastLines"] if line.startswith("verify: ")]
    assert said[0].startswith("verify: a layer cache was not exported: exporting cache to registry: ")
    assert said[1:] == [f"verify: {reference} is not in the registry"]
    assert (stored["state"], stored["failingStep"]) == ("succeeded", None)


def test_a_clock_that_is_an_hour_wrong(kept: KeptBox, monkeypatch: pytest.MonkeyPatch) -> None:
    """The box cannot store its status then: it is on the box, and in the journal."""
    header = ApiRequest.header

    def an_hour_late(self: ApiRequest, name: str) -> str | None:
        value = header(self, name)
        if name == "x-amz-date" and value is not None and self.source_address == kept.machine.address:
            signed = datetime.strptime(value, "%Y%m%dT%H%M%S%z") - timedelta(hours=1)
            return f"{signed:%Y%m%dT%H%M%SZ}"
        return value

    forget_session(kept)
    with monkeypatch.context() as patch:
        patch.setattr(ApiRequest, "header", an_hour_late)
        kept.start_build()
        kept.wait_for_end()
    status = json.loads(kept.run("cat", "/var/lib/rocm-build-box/status.json"))
    assert (status["state"], status["phase"]) == ("failed", "pre_build")
    assert status["failingStep"] == "pre_build: python3 -m buildspec.box.cache_probe: exit code 1"
    assert any("Signature expired" in line for line in status["lastLines"])


def test_the_box_builds_again_once_all_is_mended(kept: KeptBox) -> None:
    status = kept.build()
    assert (status["state"], status["exitCode"], status["failingStep"]) == ("succeeded", 0, None)
