"""Two builds on boxes that end themselves: what they did, and that nothing secret is in what they left."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path

import pytest

from buildspec.box.status import BuildStatus
from rehearsal import leaks
from rehearsal.builds import BuildOutputs
from tests.boxes import BOX, Job


def changes(output: str) -> dict[str, int]:
    """The counts of pulumi's closing summary, such as {"created": 1, "unchanged": 5}."""
    summary = output.rpartition("Resources:")[2].partition("Duration:")[0]
    return {kind: int(count) for count, kind in re.findall(r"(\d+) ([a-z]+)", summary)}


@pytest.mark.parametrize("stack", ["foundation", "box"])
def test_a_second_up_changes_nothing(job: Job, stack: str) -> None:
    done = job.no_changes[stack]
    assert done.returncode == 0, done.stdout + done.stderr
    assert changes(done.stdout).keys() == {"unchanged"}


def test_a_box_that_has_ended_itself_is_replaced_by_exactly_one(job: Job) -> None:
    assert job.second_up is not None
    assert job.second_up.returncode == 0, job.second_up.stdout + job.second_up.stderr
    created = re.findall(r"^ \+ +(\S+) \S+ created", job.second_up.stdout, re.MULTILINE)
    assert created == ["aws:ec2:Instance"]
    assert changes(job.second_up.stdout)["created"] == 1
    first, second = (build.outputs.instance_id for build in job.builds[:2])
    assert first != second


def bake_seconds(status: BuildStatus) -> float:
    (seconds,) = (phase["seconds"] for phase in status["phases"] if phase["name"] == "build")
    assert seconds is not None
    return seconds


def test_both_builds_succeed_and_the_second_compiles_nothing(job: Job) -> None:
    cold, warm = (build.status for build in job.builds[:2])
    for status in (cold, warm):
        assert (status["state"], status["exitCode"], status["failingStep"]) == ("succeeded", 0, None)
        assert [phase["name"] for phase in status["phases"]] == ["install", "pre_build", "build", "post_build"]
        assert status["warnings"] == []
    assert cold["cache"] is not None
    assert warm["cache"] is not None
    assert cold["cache"]["hits"] == 0
    assert cold["cache"]["misses"] > 50
    assert (warm["cache"]["hits"], warm["cache"]["misses"]) == (cold["cache"]["misses"], 0)
    assert warm["cache"]["compileSeconds"] <= cold["cache"]["compileSeconds"] / 10
    assert bake_seconds(warm) <= bake_seconds(cold) / 4
    assert [cold["cache"][kind] + warm["cache"][kind] for kind in ("errors", "writeErrors")] == [0, 0]


def test_the_image_is_in_the_registry_under_the_digest_of_the_status(job: Job) -> None:
    outputs = job.foundation.outputs()
    found = job.region.cloud.client("ecr").describe_images(repositoryName=outputs["registryName"])["imageDetails"]
    tagged = {tag: image["imageDigest"] for image in found for tag in image.get("imageTags", [])}
    assert tagged == job.builds[1].status["images"]


def test_sccache_wrote_the_cache_with_vended_credentials_from_the_box(job: Job) -> None:
    outputs, status = job.builds[0].outputs, job.builds[0].status
    foundation = job.foundation.outputs()
    assert status["cache"] is not None
    prefix = f"{foundation['cachePrefix']}/"
    pages = job.region.cloud.client("s3").get_paginator("list_objects_v2")
    keys = {
        item["Key"].removeprefix(prefix)
        for page in pages.paginate(Bucket=outputs.bucket, Prefix=prefix)
        for item in page["Contents"]
    }
    cached = {key for key in keys if re.fullmatch(r"[0-9a-f]/[0-9a-f]/[0-9a-f]/[0-9a-f]{64}", key)}
    assert len(cached) == status["cache"]["misses"]
    writes = [
        request
        for request in job.requests()
        if request["method"] == "PUT" and request["path"].removeprefix(f"/{outputs.bucket}/{prefix}") in cached
    ]
    session = foundation["cacheRoleArn"].replace(":iam:", ":sts:").replace(":role/rocm-build-box/", ":assumed-role/")
    assert {request["path"].removeprefix(f"/{outputs.bucket}/{prefix}") for request in writes} == cached
    assert {request["principal"] for request in writes} == {f"{session}/{status['runId']}"}
    assert {request["status"] for request in writes} == {200}
    assert len({request["source"] for request in writes}) == 1


def test_the_canary_tried_each_way_out_of_a_build_step(job: Job) -> None:
    found = re.findall(r"^canary: (\w+): (.+): expected \w+, seen \w+$", job.builds[0].log, re.MULTILINE)
    # The listener's port is another one each time.
    anonymous = [(verdict, re.sub(r"(:| port )\d{5}$", r"\1N", tried)) for verdict, tried in found]
    address = job.region.machines[job.builds[0].outputs.instance_id].address
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
def test_no_secret_is_left_anywhere(job: Job, number: int) -> None:
    build = job.builds[number]
    issued = leaks.issued_secrets(job.region) | {build.token: "token of the credential service"}
    # The operator's, and of each box: instance profile, cache role, registry.
    kinds = {kind.partition(" of ")[0] for kind in issued.values()}
    assert kinds == {
        *("AccessKeyId", "SecretAccessKey", "SessionToken", "EcrPassword", "EcrAuthorizationToken", "MetadataToken"),
        "token",
    }
    assert leaks.search(leaks.places(job.region, build.outputs, job.box), issued) == set()


def test_the_search_finds_what_is_planted_in_each_place(job: Job, tmp_path: Path) -> None:
    outputs = job.builds[0].outputs
    planted = {job.planted: "planted"}
    assert leaks.places(job.region, outputs, job.box).keys() == {
        "registry",
        "build log",
        "status",
        "journal",
        "disk",
        "state",
    }

    s3 = job.region.cloud.client("s3")
    for key in (outputs.log_key, outputs.status_key):
        body = s3.get_object(Bucket=outputs.bucket, Key=key)["Body"].read()
        s3.put_object(Bucket=outputs.bucket, Key=f"builds/planted/{key}", Body=body + job.planted.encode())
    copies = BuildOutputs(
        instance_id=outputs.instance_id,
        bucket=outputs.bucket,
        status_key=f"builds/planted/{outputs.status_key}",
        log_key=f"builds/planted/{outputs.log_key}",
    )
    state = json.loads(job.box.export())
    (stack,) = [item for item in state["deployment"]["resources"] if item["type"] == "pulumi:pulumi:Stack"]
    stack["outputs"] = {"planted": job.planted}
    (tmp_path / "state.json").write_text(json.dumps(state))
    other = job.workspace.stack("planted", BOX)
    job.workspace.pulumi("stack", "import", "--force", "--stack", "planted", "--file", str(tmp_path / "state.json"))
    assert leaks.search(leaks.places(job.region, copies, other), planted) == {
        ("build log", "planted"),
        ("status", "planted"),
        ("journal", "planted"),
        ("disk", "planted"),
        ("state", "planted"),
    }

    registry = tmp_path / "registry"
    shutil.copytree(job.region.cloud.directory / "registry", registry)
    blob = registry / "data/docker/registry/v2/blobs/sha256/aa/aaaa/data"
    blob.parent.mkdir(parents=True)
    layer = gzip.compress(b"x" * 3_000_000 + job.planted.encode())
    history = json.dumps({"history": [{"created_by": f"RUN echo {job.planted}"}]}).encode()
    for content in (layer, history):
        blob.write_bytes(content)
        assert leaks.search({"registry": leaks.registry_blobs(registry)}, planted) == {("registry", "planted")}


def test_the_journal_of_a_box_is_a_whole_one(job: Job) -> None:
    machine = job.region.machines[job.builds[0].outputs.instance_id]
    text = b"".join(leaks.journal(machine.root / "var/log/journal")).decode(errors="replace")
    assert "rocm-build.service" in text
    assert "canary: ok" in text


def test_the_log_can_be_followed_live_in_cloudwatch(job: Job) -> None:
    build = job.builds[0]
    logs = job.region.cloud.client("logs")
    stream = {"logGroupName": job.foundation.outputs()["logGroup"], "logStreamName": build.outputs.instance_id}
    shipped: list[str] = []
    token: dict[str, str] = {}
    while True:
        page = logs.get_log_events(**stream, startFromHead=True, **token)
        shipped += [event["message"] for event in page["events"]]
        if token == {"nextToken": page["nextForwardToken"]}:
            break
        token = {"nextToken": page["nextForwardToken"]}
    # An event cannot be empty: an empty line is shipped as a blank.
    assert [line.rstrip() for line in shipped] == [line.rstrip() for line in build.log.splitlines()]
