"""The main job on a booted box: both stacks by `pulumi up` itself, two builds, and what they leave.

What this does not prove: that real AWS behaves as the stand-in does.
"""

from __future__ import annotations

import gzip
import json
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from buildspec.box.status import BuildStatus
from rehearsal import inventory, leaks
from rehearsal.builds import BuildOutputs, wait_for_end, wait_for_power_off
from rehearsal.region import Region
from rehearsal.setup import Setup
from rehearsal.stacks import Stack, Workspace

FOUNDATION = {"layer": "foundation"}
BOX = {"layer": "box", "targets": ["cache-probe"]}
BUILD_SECONDS = 900


@dataclass
class FirstLight:
    """What was seen on the way; the tests judge it."""

    region: Region
    workspace: Workspace
    foundation: Stack
    box: Stack
    empty: set[tuple[str, str]]
    """The account before the first `up`."""
    no_changes: dict[str, subprocess.CompletedProcess[str]] = field(default_factory=dict)
    builds: list[tuple[BuildOutputs, BuildStatus]] = field(default_factory=list)
    planted: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    """Written to the first box's journal while it ran."""
    second_box: str = ""
    """The output of the `up` after the first box had ended itself."""

    def requests(self) -> list[dict[str, Any]]:
        lines = (self.region.cloud.directory / "requests.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def build_log(self, number: int) -> str:
        outputs, _ = self.builds[number]
        body: bytes = self.region.cloud.client("s3").get_object(Bucket=outputs.bucket, Key=outputs.log_key)["Body"].read()
        return body.decode()


def run_build(light: FirstLight) -> None:
    outputs = BuildOutputs.of(light.box.outputs())
    status = wait_for_end(light.region, outputs, timeout=BUILD_SECONDS)
    wait_for_power_off(light.region, outputs)
    light.builds.append((outputs, status))


def plant_in_the_journal(light: FirstLight) -> None:
    machine = light.region.wait_for_machine(light.box.outputs()["instanceId"])
    done = machine.execute(["logger", f"planted: {light.planted}"])
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def light(setup: Setup, rootfs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FirstLight]:
    directory = tmp_path_factory.mktemp("first-light")
    with Region(directory / "region", rootfs) as region:
        workspace = Workspace(directory / "workspace", setup.engine, region.environment())
        light = FirstLight(
            region=region,
            workspace=workspace,
            foundation=workspace.stack("foundation", FOUNDATION),
            box=workspace.stack("dev", BOX),
            empty=inventory.take(region.cloud),
        )
        light.foundation.up()
        light.no_changes["foundation"] = light.foundation.attempt("up", "--yes", "--skip-preview", "--expect-no-changes")
        light.box.up()
        plant_in_the_journal(light)
        light.no_changes["box"] = light.box.attempt("up", "--yes", "--skip-preview", "--expect-no-changes")
        run_build(light)
        done = light.box.attempt("up", "--yes", "--skip-preview")
        light.second_box = done.stdout + done.stderr
        run_build(light)
        yield light


def changes(output: str) -> dict[str, int]:
    """The counts of pulumi's closing summary, such as {"created": 1, "unchanged": 5}."""
    summary = output.rpartition("Resources:")[2].partition("Duration:")[0]
    return {kind: int(count) for count, kind in re.findall(r"(\d+) ([a-z]+)", summary)}


@pytest.mark.parametrize("stack", ["foundation", "box"])
def test_a_second_up_changes_nothing(light: FirstLight, stack: str) -> None:
    done = light.no_changes[stack]
    assert done.returncode == 0, done.stdout + done.stderr
    assert changes(done.stdout).keys() == {"unchanged"}


def test_a_box_that_has_ended_itself_is_replaced_by_exactly_one(light: FirstLight) -> None:
    created = re.findall(r"^ \+ +(\S+) \S+ created", light.second_box, re.MULTILINE)
    assert created == ["aws:ec2:Instance"], light.second_box
    assert changes(light.second_box)["created"] == 1
    first, second = (outputs.instance_id for outputs, _ in light.builds)
    assert first != second


def test_both_builds_succeed_and_the_second_compiles_nothing(light: FirstLight) -> None:
    (_, cold), (_, warm) = light.builds
    for status in (cold, warm):
        assert (status["state"], status["exitCode"], status["failingStep"]) == ("succeeded", 0, None)
        assert [phase["name"] for phase in status["phases"]] == ["install", "pre_build", "build", "post_build"]
        assert status["warnings"] == []
    assert cold["cache"] is not None and warm["cache"] is not None
    assert cold["cache"]["hits"] == 0
    assert cold["cache"]["misses"] > 50
    assert (warm["cache"]["hits"], warm["cache"]["misses"]) == (cold["cache"]["misses"], 0)
    assert warm["cache"]["compileSeconds"] <= cold["cache"]["compileSeconds"] / 10
    assert [cold["cache"][kind] + warm["cache"][kind] for kind in ("errors", "writeErrors")] == [0, 0]


def test_the_image_is_in_the_registry_under_the_digest_of_the_status(light: FirstLight) -> None:
    outputs = light.foundation.outputs()
    found = light.region.cloud.client("ecr").describe_images(repositoryName=outputs["registryName"])["imageDetails"]
    tagged = {tag: image["imageDigest"] for image in found for tag in image.get("imageTags", [])}
    assert tagged == light.builds[1][1]["images"]


def test_sccache_wrote_the_cache_with_vended_credentials_from_the_box(light: FirstLight) -> None:
    outputs, status = light.builds[0]
    foundation = light.foundation.outputs()
    assert status["cache"] is not None
    prefix = f"{foundation['cachePrefix']}/"
    pages = light.region.cloud.client("s3").get_paginator("list_objects_v2")
    keys = {
        item["Key"].removeprefix(prefix)
        for page in pages.paginate(Bucket=outputs.bucket, Prefix=prefix)
        for item in page["Contents"]
    }
    cached = {key for key in keys if re.fullmatch(r"[0-9a-f]/[0-9a-f]/[0-9a-f]/[0-9a-f]{64}", key)}
    assert len(cached) == status["cache"]["misses"]
    writes = [
        request
        for request in light.requests()
        if request["method"] == "PUT" and request["path"].removeprefix(f"/{outputs.bucket}/{prefix}") in cached
    ]
    session = foundation["cacheRoleArn"].replace(":iam:", ":sts:").replace(":role/rocm-build-box/", ":assumed-role/")
    assert {request["path"].removeprefix(f"/{outputs.bucket}/{prefix}") for request in writes} == cached
    assert {request["principal"] for request in writes} == {f"{session}/{status['runId']}"}
    assert {request["status"] for request in writes} == {200}
    assert len({request["source"] for request in writes}) == 1


def test_the_canary_tried_each_way_out_of_a_build_step(light: FirstLight) -> None:
    found = re.findall(r"^canary: (\w+): (from .+|the .+): expected (\w+), seen (\w+)$", light.build_log(0), re.MULTILINE)
    anonymous = [(verdict, re.sub(r"(\d+\.\d+\.\d+\.\d+)(:| port )\d{5}", r"\1\2N", tried)) for verdict, tried, *_ in found]
    address = light.region.machines[light.builds[0][0].instance_id].address
    assert anonymous == [
        ("ok", "from the host: IMDSv2 at 169.254.169.254:80"),
        ("ok", "from the host: 172.17.0.1:N"),
        ("ok", f"from the host: {address}:N"),
        ("ok", "the canary's bake: exit code"),
        ("ok", "from a build step: 169.254.169.254 port 80"),
        ("ok", "from a build step: fd00:ec2::254 port 80"),
        ("ok", "from a build step: 172.17.0.1 port N"),
        ("ok", f"from a build step: {address} port N"),
        ("ok", "from a build step: 172.17.0.1 port 7788"),
    ]


@pytest.mark.parametrize("number", [0, 1])
def test_no_secret_is_left_anywhere(light: FirstLight, number: int) -> None:
    outputs, _ = light.builds[number]
    issued = leaks.issued_secrets(light.region)
    # The operator's, and of each box: instance profile, cache role, registry.
    kinds = {kind.partition(" of ")[0] for kind in issued.values()}
    assert kinds == {"AccessKeyId", "SecretAccessKey", "SessionToken", "EcrAuthorizationToken"}
    assert leaks.search(leaks.places(light.region, outputs, light.box), issued) == set()


def test_the_search_finds_what_is_planted_in_each_place(light: FirstLight, tmp_path: Path) -> None:
    outputs, _ = light.builds[0]
    planted = {light.planted: "planted"}
    assert leaks.places(light.region, outputs, light.box).keys() == {
        "registry",
        "build log",
        "status",
        "journal",
        "state",
    }

    s3 = light.region.cloud.client("s3")
    for key in (outputs.log_key, outputs.status_key):
        body = s3.get_object(Bucket=outputs.bucket, Key=key)["Body"].read()
        s3.put_object(Bucket=outputs.bucket, Key=f"builds/planted/{key}", Body=body + light.planted.encode())
    copies = BuildOutputs(
        instance_id=outputs.instance_id,
        bucket=outputs.bucket,
        status_key=f"builds/planted/{outputs.status_key}",
        log_key=f"builds/planted/{outputs.log_key}",
    )
    state = json.loads(light.box.export())
    state["deployment"]["resources"][0]["outputs"]["planted"] = light.planted
    (tmp_path / "state.json").write_text(json.dumps(state))
    other = light.workspace.stack("planted", BOX)
    light.workspace.pulumi("stack", "import", "--force", "--stack", "planted", "--file", str(tmp_path / "state.json"))
    assert leaks.search(leaks.places(light.region, copies, other), planted) == {
        ("build log", "planted"),
        ("status", "planted"),
        ("journal", "planted"),
        ("state", "planted"),
    }

    registry = tmp_path / "registry"
    shutil.copytree(light.region.cloud.directory / "registry", registry)
    blob = registry / "data/docker/registry/v2/blobs/sha256/aa/aaaa/data"
    blob.parent.mkdir(parents=True)
    layer = gzip.compress(b"x" * 3_000_000 + light.planted.encode())
    history = json.dumps({"history": [{"created_by": f"RUN echo {light.planted}"}]}).encode()
    for content in (layer, history):
        blob.write_bytes(content)
        assert leaks.search({"registry": leaks.registry_blobs(registry)}, planted) == {("registry", "planted")}


def test_the_journal_and_the_disk_of_a_box_are_searched(light: FirstLight) -> None:
    machine = light.region.machines[light.builds[0][0].instance_id]
    text = b"".join(leaks.journal(machine.root / "var/log/journal")).decode(errors="replace")
    assert "rocm-build.service" in text
    assert "canary: ok" in text
