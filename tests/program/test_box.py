"""A box stack, as the program registers it, and what it refuses."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Mapping
from typing import Any

import pulumi
import pytest
import yaml
from pulumi import RunError

from buildspec.box.config import BoxConfig
from infra.settings import CHECKOUT
from tests.program.harness import ACCOUNT, AMI, FOUNDATION_OUTPUTS, Record, World, run

CONFIG = {"layer": "box"}
INSTANCE = "aws:ec2/instance:Instance"


@pytest.fixture(scope="module")
def up() -> Record:
    return run("dev", CONFIG)


def box_json(record: Record) -> Mapping[str, Any]:
    """Return the box's configuration as the user data writes it."""
    cloud_config = yaml.safe_load(record.one(INSTANCE).inputs["userData"])
    (content,) = [f["content"] for f in cloud_config["write_files"] if f["path"] == "/etc/rocm-build-box/box.json"]
    BoxConfig.from_json(content)
    document = json.loads(content)
    assert isinstance(document, dict)
    return document


def launch_hash(record: Record) -> str:
    return str(record.one(INSTANCE).inputs["tags"]["LaunchHash"])


def test_exactly_these_resources(up: Record) -> None:
    assert sorted((r.type, r.name) for r in up.resources) == [
        ("aws:ec2/instance:Instance", "box"),
        ("aws:ec2/securityGroup:SecurityGroup", "box"),
        ("aws:s3/bucketObjectv2:BucketObjectv2", "box-context"),
        ("aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule", "box-http"),
        ("aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule", "box-https"),
        ("pulumi:pulumi:StackReference", "foundation"),
        ("rocm-build-box:infra:Box", "box"),
    ]


def test_instance(up: Record) -> None:
    instance = up.one(INSTANCE)
    tags = {"Project": "rocm-build-box", "Stack": "dev", "Name": "rocm-build-box-dev-box"}
    assert {key: value for key, value in instance.inputs.items() if key != "userData"} == {
        "ami": AMI,
        "instanceType": "m7a.8xlarge",
        "subnetId": "subnet-a",
        "vpcSecurityGroupIds": ["box-id"],
        "iamInstanceProfile": "profile",
        "instanceInitiatedShutdownBehavior": "terminate",
        "userDataReplaceOnChange": True,
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpTokens": "required",
            "httpPutResponseHopLimit": 1,
            "instanceMetadataTags": "disabled",
        },
        "rootBlockDevice": {
            "volumeType": "gp3",
            "volumeSize": 500,
            "iops": 6000,
            "throughput": 500,
            "encrypted": True,
            "deleteOnTermination": True,
        },
        "volumeTags": tags,
        "tags": {**tags, "LaunchHash": launch_hash(up)},
    }
    assert instance.inputs["userData"].startswith("#cloud-config\n")


def test_instance_is_replaced_after_its_predecessor_and_started_after_what_it_needs(up: Record) -> None:
    instance = up.one(INSTANCE)
    assert instance.delete_before_replace
    assert instance.ignore_changes == ("ami",)
    assert instance.replacement_trigger == launch_hash(up) != ""
    assert instance.dependencies == {
        "aws:ec2/securityGroup:SecurityGroup::box",
        "aws:s3/bucketObjectv2:BucketObjectv2::box-context",
        "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule::box-http",
        "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule::box-https",
    }


def test_nothing_in_and_the_web_out(up: Record) -> None:
    group = up.one("aws:ec2/securityGroup:SecurityGroup").inputs
    assert group.keys() == {"name", "description", "vpcId", "tags"}
    assert _egress(up) == {("tcp", 80, 80, "0.0.0.0/0"), ("tcp", 443, 443, "0.0.0.0/0")}


def test_a_registry_on_another_port_can_be_reached() -> None:
    variables = {"REGISTRY": "registry.example.com:5000", "REGISTRY_NAME": "rocm"}
    record = run("dev", {**CONFIG, "bakeVariables": json.dumps(variables)})
    assert _egress(record) == {(*("tcp", port, port), "0.0.0.0/0") for port in (80, 443, 5000)}
    assert box_json(record)["bakeVariables"].items() >= variables.items()


def test_configuration_of_the_box(up: Record) -> None:
    document = dict(box_json(up))
    session = document.pop("sessionPolicy")
    assert document == {
        "stack": "dev",
        "region": "us-east-1",
        "bucket": "bucket",
        "cachePrefix": "rocm-pytorch",
        "context": {
            "key": f"contexts/dev/{up.outputs['contextSha256']}.tar.gz",
            "sha256": up.outputs["contextSha256"],
        },
        "cacheRoleArn": FOUNDATION_OUTPUTS["cacheRoleArn"],
        "logGroup": "/rocm-build-box/foundation",
        "targets": ["cache-probe"],
        "bakeVariables": {
            "REGISTRY": f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com",
            "REGISTRY_NAME": "rocm-build-box/foundation",
            "REGISTRY_INSECURE": "false",
            "SCCACHE_BUCKET": "bucket",
            "SCCACHE_REGION": "us-east-1",
            "SCCACHE_S3_KEY_PREFIX": "rocm-pytorch",
            "VCS_REF": document["bakeVariables"]["VCS_REF"],
            "BUILD_DATE": "2024-02-03T03:05:06Z",
        },
        "keepBox": False,
        "maxLifetimeHours": 12,
    }
    assert re.fullmatch("[0-9a-f]{40}", document["bakeVariables"]["VCS_REF"])
    assert [statement["Condition"] for statement in session["Statement"]] == [
        {"StringEquals": {"aws:SourceVpce": "vpce-1"}}
    ] * 2


def test_context_is_the_archive_that_the_box_will_verify(up: Record) -> None:
    inputs = up.one("aws:s3/bucketObjectv2:BucketObjectv2").inputs
    assert inputs["bucket"] == "bucket"
    assert inputs["key"] == box_json(up)["context"]["key"]
    source = inputs["source"]
    assert isinstance(source, pulumi.FileAsset)
    data = (CHECKOUT / source.path).read_bytes()
    assert hashlib.sha256(data).hexdigest() == box_json(up)["context"]["sha256"]
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        names = archive.getnames()
    assert {"rocm-bake.hcl", "buildspec/build.yml", "buildspec/box/runner.py"} <= set(names)
    assert {name.partition("/")[0] for name in names} == {"rocm-bake.hcl", "buildspec", "docker"}
    assert not [name for name in names if "__pycache__" in name]


def test_exports(up: Record) -> None:
    assert up.outputs == {
        "instanceId": "box-id",
        "zone": "us-east-1a",
        "bucketName": "bucket",
        "contextSha256": box_json(up)["context"]["sha256"],
        "statusUri": "s3://bucket/builds/dev/box-id/status.json",
        "logUri": "s3://bucket/builds/dev/box-id/build.log",
        "logTailCommand": (
            "aws logs tail /rocm-build-box/foundation --region us-east-1 --log-stream-name-prefix box-id --follow"
        ),
    }


def test_foundation_is_asked_for_by_its_full_name() -> None:
    record = run("dev", {**CONFIG, "foundationStack": "team"})
    reference = record.one("pulumi:pulumi:StackReference")
    assert reference.inputs["name"] == "organization/rocm-build-box/team"


def test_a_pinned_ami_is_used_and_a_change_of_it_seen(up: Record) -> None:
    record = run("dev", {**CONFIG, "ami": "ami-0fedcba9876543210"})
    instance = record.one(INSTANCE)
    assert instance.inputs["ami"] == "ami-0fedcba9876543210"
    assert instance.ignore_changes == ()
    assert launch_hash(record) != launch_hash(up)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("instanceType", "m7a.24xlarge"),
        ("volumeGiB", "501"),
        ("targets", '["cache-probe", "sccache"]'),
        ("bakeVariables", '{"MAX_JOBS": "3"}'),
        ("keepBox", "true"),
        ("maxLifetimeHours", "11"),
    ],
)
def test_whatever_a_box_is_launched_with_replaces_it(up: Record, key: str, value: str) -> None:
    assert launch_hash(run("dev", {**CONFIG, key: value})) != launch_hash(up)


def test_the_same_input_gives_the_same_box(up: Record) -> None:
    again = run("dev", CONFIG)
    assert again.one(INSTANCE).inputs == up.one(INSTANCE).inputs


def test_first_zone_of_the_foundation_that_offers_the_type() -> None:
    record = run("dev", CONFIG, World(zones=("us-east-1f", "us-east-1b")))
    assert record.outputs["zone"] == "us-east-1b"
    assert record.one(INSTANCE).inputs["subnetId"] == "subnet-b"


@pytest.mark.parametrize(
    ("world", "config", "message"),
    [
        (
            World(zones=()),
            {},
            "instanceType: m7a.8xlarge is not offered in us-east-1.*describe-instance-type-offerings",
        ),
        (
            World(zones=("us-east-1e", "us-east-1d")),
            {},
            "offered in us-east-1d, us-east-1e, .*subnets in us-east-1a, us-east-1b.*fix: ",
        ),
        (
            World(architectures=("arm64",)),
            {"instanceType": "m8g.8xlarge"},
            "m8g.8xlarge has arm64 processors.*x86_64, the only one.*fix: ",
        ),
        (World(), {"requireGpu": "true"}, "requireGpu: m7a.8xlarge carries no GPU.*for gfx950.*fix: "),
        (
            World(gpus=({"manufacturer": "AMD", "name": "Radeon Pro V520", "count": 1, "memorySize": 8192},)),
            {"requireGpu": "true", "instanceType": "g4ad.4xlarge"},
            r"g4ad.4xlarge carries AMD Radeon Pro V520 \(gfx1011\), and the build is for gfx950.*fix: ",
        ),
        (
            World(foundation=None),
            {},
            "organization/rocm-build-box/foundation: there is none.*pulumi stack init foundation.*pulumi up",
        ),
        (
            World(foundation={}),
            {},
            "organization/rocm-build-box/foundation: .*not deployed yet.*pulumi up --stack foundation",
        ),
        (
            World(foundation={k: v for k, v in FOUNDATION_OUTPUTS.items() if k != "s3EndpointId"}),
            {},
            "outputs missing: s3EndpointId;.*pulumi up --stack foundation",
        ),
        (
            World(region="eu-west-1"),
            {},
            "region us-east-1, but this stack deploys to .*region eu-west-1.*pulumi config set aws:region us-east-1",
        ),
    ],
)
def test_refused_with_the_reason_and_the_fix(world: World, config: Mapping[str, str], message: str) -> None:
    with pytest.raises(RunError, match=f"(?s){message}"):
        run("dev", {**CONFIG, **config}, world, preview=True)


def test_a_gpu_of_the_right_kind_is_accepted() -> None:
    gpu = {"manufacturer": "AMD", "name": "Radeon Pro V520", "count": 1, "memorySize": 8192}
    variables = json.dumps({"PYTORCH_ROCM_ARCH": "gfx942;gfx1011"})
    record = run("dev", {**CONFIG, "requireGpu": "true", "bakeVariables": variables}, World(gpus=(gpu,)))
    assert record.one(INSTANCE)


def test_a_running_build_is_not_ended() -> None:
    with pytest.raises(RunError, match=r"(?s)i-1 of stack dev is running.*wait until.*pulumi destroy"):
        run("dev", CONFIG, World(running={"i-1": "another"}), preview=True)


def test_a_running_build_of_the_same_input_is_left_alone(up: Record) -> None:
    record = run("dev", CONFIG, World(running={"i-1": launch_hash(up)}, last_instance="i-1"))
    assert launch_hash(record) == launch_hash(up)


@pytest.mark.parametrize("last", [None, "i-0"])
def test_a_box_that_an_interrupted_up_launched_is_not_doubled(up: Record, last: str | None) -> None:
    world = World(running={"i-1": launch_hash(up)}, last_instance=last)
    with pytest.raises(RunError, match=r"(?s)box i-1 of stack dev .*interrupted.*terminate-instances .*i-1`"):
        run("dev", CONFIG, world, preview=True)


def test_settings_are_refused_before_anything_is_registered() -> None:
    with pytest.raises(RunError, match=r"(?s)3 settings are wrong.*volumeGib.*targets.*maxLifetimeHours"):
        run("dev", {**CONFIG, "volumeGib": "1", "targets": '["cache-prob"]', "maxLifetimeHours": "13"})


def _egress(record: Record) -> set[tuple[object, ...]]:
    rules = [r.inputs for r in record.resources if r.type.endswith(":SecurityGroupEgressRule")]
    assert {rule["securityGroupId"] for rule in rules} == {"box-id"}
    return {(r["ipProtocol"], r["fromPort"], r["toPort"], r["cidrIpv4"]) for r in rules}
