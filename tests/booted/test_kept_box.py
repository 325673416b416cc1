"""Builds that go wrong, on a box that stays: each ends with a status that names the step, and without its secrets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.boxes import KeptBox, without_action

OVERRIDE = "/opt/rocm-build-box/ami/99-broken.hcl"


def test_a_kept_box_stays_up_without_its_secrets(kept: KeptBox) -> None:
    status = kept.job.builds[-1].status
    assert (status["state"], status["exitCode"]) == ("succeeded", 0)
    instance = kept.job.region.cloud.client("ec2").describe_instances(InstanceIds=[kept.outputs.instance_id])
    assert instance["Reservations"][0]["Instances"][0]["State"]["Name"] == "running"
    assert kept.machine.running
    assert kept.secrets_left() == []


@pytest.fixture
def broken_bake(kept: KeptBox) -> Iterator[None]:
    text = 'target "cache-probe" { args = { ZSTD_SOURCE_VERSION = "0-0" } }'
    kept.run("sh", "-c", f"printf %s '{text}' > {OVERRIDE}")
    yield
    kept.run("rm", OVERRIDE)


@pytest.mark.usefixtures("broken_bake")
def test_a_failing_bake_names_its_step_and_leaves_no_secret(kept: KeptBox) -> None:
    status = kept.build()
    assert status["state"] == "failed"
    assert status["exitCode"] == 1
    assert status["phase"] == "post_build"
    assert status["failingStep"] is not None
    assert status["failingStep"].startswith("build: python3 -m buildspec.box.bake: exit code 1: ")
    assert "cache-probe" in status["failingStep"]
    assert any("ZSTD_SOURCE_VERSION" in line for line in status["lastLines"])
    assert "ZSTD_SOURCE_VERSION" in kept.job.log_of(kept.outputs)
    assert kept.secrets_left() == []


@pytest.fixture(scope="module")
def impatient(kept: KeptBox) -> Iterator[None]:
    """The probe waits for IAM's eventual consistency, a minute each time, which is none of the business here."""
    probe = "/opt/rocm-build-box/buildspec/box/cache_probe.py"
    text = kept.run("cat", probe)
    shorter = text.replace("\nPATIENCE_SECONDS = 60.0\n", "\nPATIENCE_SECONDS = 5.0\n")
    assert shorter != text
    kept.machine.write(probe, shorter)
    yield
    kept.machine.write(probe, text)


@pytest.fixture(params=["s3:ListBucket", "s3:PutObject", "s3:GetObject"])
def missing_action(kept: KeptBox, request: pytest.FixtureRequest) -> Iterator[str]:
    """The cache role without one of its actions."""
    action: str = request.param
    role = kept.job.foundation.outputs()["cacheRoleArn"].rpartition("/")[2]
    with without_action(kept, role, action):
        yield action


@pytest.mark.usefixtures("impatient")
def test_a_missing_permission_is_named_before_the_bake(kept: KeptBox, missing_action: str) -> None:
    status = kept.build()
    assert (status["state"], status["phase"]) == ("failed", "pre_build")
    assert status["failingStep"] is not None
    assert status["failingStep"].startswith("pre_build: python3 -m buildspec.box.cache_probe: exit code 1")
    refusals = [line for line in status["lastLines"] if "does not allow" in line]
    assert len(refusals) == 1
    assert f"does not allow {missing_action} on" in refusals[0]
    assert "buildspec.box.bake" not in kept.job.log_of(kept.outputs)
    assert kept.secrets_left() == []


@pytest.fixture
def without_firewall(kept: KeptBox) -> Iterator[None]:
    kept.run("nft", "delete", "table", "inet", "rocm_build_box")
    yield
    kept.run("systemctl", "reload", "rocm-build-firewall.service")


@pytest.mark.usefixtures("without_firewall")
def test_no_bake_starts_when_a_build_step_reaches_the_host(kept: KeptBox) -> None:
    status = kept.build()
    assert (status["state"], status["phase"]) == ("failed", "pre_build")
    assert status["failingStep"] is not None
    assert status["failingStep"].startswith("pre_build: python3 -m buildspec.box.canary: exit code 1")
    log = kept.job.log_of(kept.outputs)
    assert f"canary: FAILED: from a build step: {kept.machine.address} port " in log
    assert "buildspec.box.bake" not in log
    assert kept.secrets_left() == []


def test_the_box_builds_again_once_all_is_mended(kept: KeptBox) -> None:
    status = kept.build()
    assert (status["state"], status["exitCode"], status["failingStep"]) == ("succeeded", 0, None)
