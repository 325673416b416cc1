"""The provider stand-in through its protocol, over a real gRPC connection, against the rehearsal's cloud.

What AWS itself would refuse, and how the engine acts on the answers, is not proved here; see `test_provider_engine.py`.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from botocore.exceptions import ClientError
from pulumi.runtime.proto import provider_pb2 as proto
from pulumi.runtime.proto import status_pb2
from pulumi.runtime.proto.provider_pb2_grpc import ResourceProviderStub

from rehearsal.cloud import ACCOUNT, REGION
from rehearsal.cloud.backends import DEBIAN_IMAGE_ID
from rehearsal.cloud.server import Cloud
from rehearsal.provider import aws, instance, server
from rehearsal.provider.errors import ProviderError
from rehearsal.provider.wire import UNKNOWN, Properties, from_struct, to_struct

VPC = "aws:ec2/vpc:Vpc"
SUBNET = "aws:ec2/subnet:Subnet"
GATEWAY = "aws:ec2/internetGateway:InternetGateway"
ROUTE_TABLE = "aws:ec2/routeTable:RouteTable"
ROUTE = "aws:ec2/route:Route"
ASSOCIATION = "aws:ec2/routeTableAssociation:RouteTableAssociation"
ENDPOINT = "aws:ec2/vpcEndpoint:VpcEndpoint"
GROUP = "aws:ec2/securityGroup:SecurityGroup"
EGRESS = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
INSTANCE = "aws:ec2/instance:Instance"
BUCKET = "aws:s3/bucket:Bucket"
ACCESS_BLOCK = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
OWNERSHIP = "aws:s3/bucketOwnershipControls:BucketOwnershipControls"
ENCRYPTION = "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
BUCKET_POLICY = "aws:s3/bucketPolicy:BucketPolicy"
LIFECYCLE = "aws:s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration"
OBJECT = "aws:s3/bucketObjectv2:BucketObjectv2"
REPOSITORY = "aws:ecr/repository:Repository"
IMAGE_LIFECYCLE = "aws:ecr/lifecyclePolicy:LifecyclePolicy"
LOG_GROUP = "aws:cloudwatch/logGroup:LogGroup"
ROLE = "aws:iam/role:Role"
ROLE_POLICY = "aws:iam/rolePolicy:RolePolicy"
PROFILE = "aws:iam/instanceProfile:InstanceProfile"

ASSET_SIGNATURE = {"4dabf18193072939515e22adb298388d": "c44067f5952c0a294b673a41bacd8c17"}


@dataclass(frozen=True)
class Made:
    """A resource as the engine would hold it in its state."""

    id: str
    inputs: Properties
    state: Properties


class Engine:
    """Calls the provider as the engine does."""

    def __init__(self, stub: Any) -> None:
        self.stub = stub

    def check(self, token: str, inputs: Mapping[str, Any]) -> tuple[Properties, dict[str, str]]:
        answer = self.stub.Check(proto.CheckRequest(urn=urn(token), news=to_struct(inputs)))
        return from_struct(answer.inputs), {failure.property: failure.reason for failure in answer.failures}

    def create(self, token: str, inputs: Mapping[str, Any]) -> Made:
        checked, failures = self.check(token, inputs)
        assert failures == {}
        answer = self.stub.Create(proto.CreateRequest(urn=urn(token), properties=to_struct(checked)))
        return Made(answer.id, checked, from_struct(answer.properties))

    def preview(self, token: str, inputs: Mapping[str, Any]) -> Properties:
        request = proto.CreateRequest(urn=urn(token), properties=to_struct(inputs), preview=True)
        return from_struct(self.stub.Create(request).properties)

    def read(self, token: str, made: Made) -> Made | None:
        """Refresh; `None` is a resource that is gone."""
        answer = self.stub.Read(
            proto.ReadRequest(
                urn=urn(token),
                id=made.id,
                inputs=to_struct(made.inputs),
                properties=to_struct(made.state),
            )
        )
        return Made(answer.id, from_struct(answer.inputs), from_struct(answer.properties)) if answer.id else None

    def diff(self, token: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Any:
        request = proto.DiffRequest(urn=urn(token), old_inputs=to_struct(old), news=to_struct(new))
        return self.stub.Diff(request)

    def update(
        self, token: str, resource_id: str, old: Mapping[str, Any], new: Mapping[str, Any], *, preview: bool = False
    ) -> Properties:
        answer = self.stub.Update(
            proto.UpdateRequest(
                urn=urn(token),
                id=resource_id,
                olds=to_struct(old),
                old_inputs=to_struct(old),
                news=to_struct(new),
                preview=preview,
            )
        )
        return from_struct(answer.properties)

    def delete(self, token: str, made: Made) -> None:
        self.stub.Delete(proto.DeleteRequest(urn=urn(token), id=made.id, properties=to_struct(made.state)))

    def invoke(self, token: str, **arguments: Any) -> Properties:
        answer = self.stub.Invoke(proto.InvokeRequest(tok=token, args=to_struct(arguments)))
        assert list(answer.failures) == []
        return from_struct(getattr(answer, "return"))


def refusal(call: Callable[[], object]) -> grpc.RpcError:
    """The error with which the provider refuses `call`."""
    with pytest.raises(grpc.RpcError) as raised:
        call()
    return raised.value


def urn(token: str) -> str:
    return f"urn:pulumi:test::test::rocm-build-box:infra:Box${token}::name"


def policy(*actions: str) -> str:
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
    # With spaces and a line break, as no service gives it back.
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=1)


def trust(service: str) -> str:
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=1)


def refuse_prefix(bucket: str, prefix: str) -> str:
    statement = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:GetObject",
        "Resource": f"arn:aws:s3:::{bucket}/{prefix}/*",
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=1)


def asset(path: Path, content: bytes) -> dict[str, str]:
    path.write_bytes(content)
    return {**ASSET_SIGNATURE, "hash": hashlib.sha256(content).hexdigest(), "path": str(path)}


def expire_untagged(days: int) -> str:
    selection = {"tagStatus": "untagged", "countType": "sinceImagePushed", "countUnit": "days"}
    rule = {"rulePriority": 1, "selection": {**selection, "countNumber": days}, "action": {"type": "expire"}}
    return json.dumps({"rules": [rule]}, indent=1)


def make_world(engine: Engine, folder: Path) -> dict[str, Made]:
    """One resource of each type, with every property that the program sets."""
    name = f"world-{secrets.token_hex(4)}"
    tags = {"Project": "rocm-build-box", "Stack": name}
    world: dict[str, Made] = {}

    def make(token: str, **inputs: Any) -> str:
        world[token] = engine.create(token, inputs)
        return world[token].id

    vpc = make(VPC, cidrBlock="10.64.0.0/16", enableDnsSupport=True, enableDnsHostnames=True, tags=tags)
    subnet = make(
        SUBNET,
        vpcId=vpc,
        cidrBlock="10.64.0.0/20",
        availabilityZone=f"{REGION}a",
        mapPublicIpOnLaunch=True,
        tags=tags,
    )
    gateway = make(GATEWAY, vpcId=vpc, tags=tags)
    table = make(ROUTE_TABLE, vpcId=vpc, tags=tags)
    make(ROUTE, routeTableId=table, destinationCidrBlock="0.0.0.0/0", gatewayId=gateway)
    make(ASSOCIATION, routeTableId=table, subnetId=subnet)
    service = f"com.amazonaws.{REGION}.s3"
    make(ENDPOINT, vpcId=vpc, serviceName=service, vpcEndpointType="Gateway", routeTableIds=[table], tags=tags)
    group = make(GROUP, name=name, description="nothing in", vpcId=vpc, tags=tags)
    make(
        EGRESS,
        securityGroupId=group,
        ipProtocol="tcp",
        fromPort=443,
        toPort=443,
        cidrIpv4="0.0.0.0/0",
        description="https",
        tags=tags,
    )
    bucket = make(BUCKET, bucket=name, forceDestroy=True, tags=tags)
    make(
        ACCESS_BLOCK,
        bucket=bucket,
        blockPublicAcls=True,
        blockPublicPolicy=True,
        ignorePublicAcls=True,
        restrictPublicBuckets=True,
    )
    make(OWNERSHIP, bucket=bucket, rule={"objectOwnership": "BucketOwnerEnforced"})
    make(ENCRYPTION, bucket=bucket, rules=[{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "AES256"}}])
    make(BUCKET_POLICY, bucket=bucket, policy=refuse_prefix(bucket, "hidden"))
    make(
        LIFECYCLE,
        bucket=bucket,
        rules=[
            {"id": "cache", "status": "Enabled", "filter": {"prefix": "cache/"}, "expiration": {"days": 60}},
            {
                "id": "broken-uploads",
                "status": "Enabled",
                "filter": {"prefix": ""},
                "abortIncompleteMultipartUpload": {"daysAfterInitiation": 1},
            },
        ],
    )
    make(
        OBJECT,
        bucket=bucket,
        key="contexts/context.tar.gz",
        source=asset(folder / f"{name}.tar.gz", b"context"),
        contentType="application/gzip",
        tags=tags,
    )
    repository = make(
        REPOSITORY,
        name=f"rocm-build-box/{name}",
        imageTagMutability="MUTABLE",
        imageScanningConfiguration={"scanOnPush": True},
        encryptionConfigurations=[{"encryptionType": "AES256"}],
        forceDelete=True,
        tags=tags,
    )
    make(IMAGE_LIFECYCLE, repository=repository, policy=expire_untagged(14))
    make(LOG_GROUP, name=f"/rocm-build-box/{name}", retentionInDays=90, tags=tags)
    role = make(
        ROLE,
        name=name,
        path="/rocm-build-box/",
        description="The build machine",
        assumeRolePolicy=trust("ec2.amazonaws.com"),
        maxSessionDuration=3600,
        tags=tags,
    )
    make(ROLE_POLICY, role=role, name="box", policy=policy("s3:GetObject"))
    profile = make(PROFILE, name=name, path="/rocm-build-box/", role=role, tags=tags)
    make(
        INSTANCE,
        ami=DEBIAN_IMAGE_ID,
        instanceType="m7a.8xlarge",
        subnetId=subnet,
        vpcSecurityGroupIds=[group],
        iamInstanceProfile=profile,
        instanceInitiatedShutdownBehavior="terminate",
        userData="#cloud-config\n# größer\n",
        userDataReplaceOnChange=True,
        metadataOptions={
            "httpEndpoint": "enabled",
            "httpTokens": "required",
            "httpPutResponseHopLimit": 1,
            "instanceMetadataTags": "disabled",
        },
        rootBlockDevice={
            "volumeType": "gp3",
            "volumeSize": 500,
            "iops": 6000,
            "throughput": 500,
            "encrypted": True,
            "deleteOnTermination": True,
        },
        volumeTags=tags,
        tags=tags,
    )
    return world


@pytest.fixture(scope="module")
def engine(cloud: Cloud) -> Iterator[Engine]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in cloud.operator_environment().items():
            patch.setenv(name, value)
        running, port = server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = ResourceProviderStub(channel)
            stub.Configure(proto.ConfigureRequest(args=to_struct({"region": REGION})))
            yield Engine(stub)
        running.stop(grace=None).wait()


@pytest.fixture(scope="module")
def world(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Made]:
    """Shared by the tests of this module: whoever changes it changes it back."""
    return make_world(engine, tmp_path_factory.mktemp("assets"))


@pytest.fixture(scope="module")
def second_gateway(cloud: Cloud) -> str:
    gateway = cloud.client("ec2").create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    return str(gateway)


def test_the_types_and_functions_are_those_of_the_program(world: dict[str, Made]) -> None:
    assert set(server.RESOURCES) == set(world)
    assert set(server.FUNCTIONS) == {
        "aws:index/getCallerIdentity:getCallerIdentity",
        "aws:index/getRegion:getRegion",
        "aws:index/getAvailabilityZones:getAvailabilityZones",
        "aws:ssm/getParameter:getParameter",
        "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings",
        "aws:ec2/getInstanceType:getInstanceType",
        "aws:ec2/getInstances:getInstances",
    }


@pytest.mark.parametrize("token", sorted(server.RESOURCES))
def test_what_was_made_reads_back_as_it_was_written(engine: Engine, world: dict[str, Made], token: str) -> None:
    made = world[token]
    now = engine.read(token, made)
    assert now is not None
    assert now.inputs == made.inputs
    assert now.state == made.state
    assert made.state.keys() >= server.RESOURCES[token].outputs | made.inputs.keys()
    assert engine.diff(token, now.inputs, made.inputs).changes == proto.DiffResponse.DIFF_NONE


def test_the_outputs_that_the_program_reads(world: dict[str, Made]) -> None:
    name = world[BUCKET].id
    assert world[BUCKET].state["arn"] == f"arn:aws:s3:::{name}"
    assert world[ROLE].state["arn"] == f"arn:aws:iam::{ACCOUNT}:role/rocm-build-box/{name}"
    assert world[PROFILE].state["name"] == name
    repository = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/rocm-build-box/{name}"
    assert world[REPOSITORY].state["repositoryUrl"] == repository
    assert world[REPOSITORY].state["registryId"] == ACCOUNT
    assert world[INSTANCE].state["availabilityZone"] == f"{REGION}a"
    assert world[INSTANCE].state["privateIp"].startswith("10.64.")
    assert world[INSTANCE].state["instanceState"] == "running"


def test_aws_has_what_was_asked_for(cloud: Cloud, world: dict[str, Made]) -> None:
    """Asked without the provider, so that a property which it both drops and forgets is found."""
    ec2, box = cloud.client("ec2"), world[INSTANCE].id
    instance = ec2.describe_instances(InstanceIds=[box])["Reservations"][0]["Instances"][0]
    assert instance["MetadataOptions"]["HttpTokens"] == "required"
    assert instance["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
    assert instance["IamInstanceProfile"]["Arn"] == world[PROFILE].state["arn"]
    assert [group["GroupId"] for group in instance["SecurityGroups"]] == [world[GROUP].id]
    behavior = ec2.describe_instance_attribute(InstanceId=box, Attribute="instanceInitiatedShutdownBehavior")
    assert behavior["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate"
    volume_id = instance["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]
    volume = ec2.describe_volumes(VolumeIds=[volume_id])["Volumes"][0]
    assert (volume["Size"], volume["VolumeType"], volume["Encrypted"]) == (500, "gp3", True)
    assert {tag["Key"]: tag["Value"] for tag in volume["Tags"]} == world[INSTANCE].inputs["volumeTags"]
    group = ec2.describe_security_groups(GroupIds=[world[GROUP].id])["SecurityGroups"][0]
    assert group["IpPermissions"] == []
    assert [(rule["FromPort"], rule["ToPort"]) for rule in group["IpPermissionsEgress"]] == [(443, 443)]
    bucket = world[BUCKET].id
    block = cloud.client("s3").get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]
    assert set(block.values()) == {True}
    content = cloud.client("s3").get_object(Bucket=bucket, Key="contexts/context.tar.gz")["Body"].read()
    assert content == b"context"


UPDATES: list[tuple[str, dict[str, Any]]] = [
    (VPC, {"enableDnsHostnames": False}),
    (VPC, {"enableDnsSupport": False}),
    (VPC, {"tags": {"Stack": "other", "Added": "yes"}}),
    (SUBNET, {"mapPublicIpOnLaunch": False}),
    (ENDPOINT, {"routeTableIds": []}),
    (ENDPOINT, {"tags": {}}),
    (GROUP, {"tags": {"Stack": "other"}}),
    (EGRESS, {"fromPort": 80, "toPort": 80, "description": "http"}),
    (BUCKET, {"tags": {"Stack": "other", "Added": "yes"}}),
    (BUCKET, {"tags": {}}),
    (ACCESS_BLOCK, {"blockPublicPolicy": False}),
    (OWNERSHIP, {"rule": {"objectOwnership": "ObjectWriter"}}),
    (ENCRYPTION, {"rules": [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "aws:kms"}}]}),
    (BUCKET_POLICY, {"policy": refuse_prefix("placeholder", "other")}),
    (
        LIFECYCLE,
        {"rules": [{"id": "cache", "status": "Enabled", "filter": {"prefix": "c/"}, "expiration": {"days": 9}}]},
    ),
    (OBJECT, {"contentType": "application/octet-stream"}),
    (OBJECT, {"tags": {"Stack": "other"}}),
    (REPOSITORY, {"imageTagMutability": "IMMUTABLE"}),
    (REPOSITORY, {"imageScanningConfiguration": {"scanOnPush": False}}),
    (REPOSITORY, {"tags": {"Stack": "other"}}),
    (LOG_GROUP, {"retentionInDays": 30}),
    (LOG_GROUP, {"retentionInDays": 0}),
    (LOG_GROUP, {"tags": {"Stack": "other"}}),
    (ROLE, {"assumeRolePolicy": trust("codebuild.amazonaws.com")}),
    (ROLE, {"description": "another", "maxSessionDuration": 43200}),
    (ROLE, {"tags": {"Stack": "other"}}),
    (ROLE_POLICY, {"policy": policy("s3:PutObject")}),
    (PROFILE, {"tags": {"Stack": "other"}}),
    (ROUTE, {"gatewayId": "second"}),
    (GATEWAY, {"tags": {}}),
    (ROUTE_TABLE, {"tags": {"Stack": "other"}}),
    (INSTANCE, {"vpcSecurityGroupIds": ["default"]}),
    (INSTANCE, {"metadataOptions": {"httpTokens": "required", "httpPutResponseHopLimit": 2}}),
    (INSTANCE, {"volumeTags": {"Stack": "other"}, "tags": {"Stack": "other"}}),
]


@pytest.mark.parametrize(
    ("token", "change"),
    UPDATES,
    ids=[f"{token.rpartition(':')[2]}-{'-'.join(change)}" for token, change in UPDATES],
)
def test_a_change_in_place_reaches_aws_and_back(
    engine: Engine, world: dict[str, Made], second_gateway: str, token: str, change: dict[str, Any]
) -> None:
    made = world[token]
    new = made.inputs | change
    if token == BUCKET_POLICY:
        new["policy"] = refuse_prefix(made.id, "other")
    if "vpcSecurityGroupIds" in change:
        new["vpcSecurityGroupIds"] = [world[VPC].state["defaultSecurityGroupId"]]
    if token == ROUTE:
        new["gatewayId"] = second_gateway
    diff = engine.diff(token, made.inputs, new)
    assert set(diff.diffs) == change.keys()
    assert list(diff.replaces) == []

    state = engine.update(token, made.id, made.inputs, new)
    # Had it not reached AWS, a refresh would find the old value there.
    changed = engine.read(token, Made(made.id, new, state))
    assert changed is not None
    assert changed.inputs == new
    assert changed.state == state

    engine.update(token, made.id, new, made.inputs)
    restored = engine.read(token, made)
    assert restored is not None
    assert restored.inputs == made.inputs


REPLACING: list[tuple[str, str, Any]] = [
    (VPC, "cidrBlock", "10.65.0.0/16"),
    (SUBNET, "vpcId", "vpc-0"),
    (SUBNET, "cidrBlock", "10.64.16.0/20"),
    (SUBNET, "availabilityZone", f"{REGION}b"),
    (ROUTE_TABLE, "vpcId", "vpc-0"),
    (ROUTE, "routeTableId", "rtb-0"),
    (ROUTE, "destinationCidrBlock", "192.0.2.0/24"),
    (ASSOCIATION, "routeTableId", "rtb-0"),
    (ASSOCIATION, "subnetId", "subnet-0"),
    (ENDPOINT, "vpcId", "vpc-0"),
    (ENDPOINT, "serviceName", "com.amazonaws.us-east-1.dynamodb"),
    (GROUP, "name", "other"),
    (GROUP, "description", "other"),
    (GROUP, "vpcId", "vpc-0"),
    (EGRESS, "securityGroupId", "sg-0"),
    (INSTANCE, "ami", "ami-0"),
    (INSTANCE, "subnetId", "subnet-0"),
    (INSTANCE, "userData", "#cloud-config\n"),
    (BUCKET, "bucket", "other"),
    (BUCKET_POLICY, "bucket", "other"),
    (OBJECT, "bucket", "other"),
    (OBJECT, "key", "other"),
    (REPOSITORY, "name", "other"),
    (REPOSITORY, "encryptionConfigurations", [{"encryptionType": "KMS"}]),
    (IMAGE_LIFECYCLE, "repository", "other"),
    (IMAGE_LIFECYCLE, "policy", expire_untagged(1)),
    (LOG_GROUP, "name", "other"),
    (ROLE, "name", "other"),
    (ROLE, "path", "/"),
    (ROLE_POLICY, "role", "other"),
    (ROLE_POLICY, "name", "other"),
    (PROFILE, "name", "other"),
    (PROFILE, "path", "/"),
]


@pytest.mark.parametrize(
    ("token", "name", "value"),
    REPLACING,
    ids=[f"{token.rpartition(':')[2]}-{name}" for token, name, _ in REPLACING],
)
def test_a_change_replaces(engine: Engine, world: dict[str, Made], token: str, name: str, value: Any) -> None:
    diff = engine.diff(token, world[token].inputs, world[token].inputs | {name: value})
    assert list(diff.replaces) == [name]
    kinds = {key: item.kind for key, item in diff.detailedDiff.items()}
    assert kinds == {name: proto.PropertyDiff.UPDATE_REPLACE}


def test_a_value_that_is_not_known_yet_replaces(engine: Engine, world: dict[str, Made]) -> None:
    diff = engine.diff(SUBNET, world[SUBNET].inputs, world[SUBNET].inputs | {"vpcId": UNKNOWN})
    assert list(diff.replaces) == ["vpcId"]


def test_user_data_replaces_only_if_the_program_asks_for_it(engine: Engine, world: dict[str, Made]) -> None:
    old = world[INSTANCE].inputs | {"userDataReplaceOnChange": False}
    diff = engine.diff(INSTANCE, old, old | {"userData": "#cloud-config\n"})
    assert (list(diff.diffs), list(diff.replaces)) == (["userData"], [])


@pytest.mark.parametrize("preview", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        {"instanceType": "m7a.24xlarge"},
        {"instanceInitiatedShutdownBehavior": "stop"},
        {"iamInstanceProfile": "other"},
        {"rootBlockDevice": {"volumeSize": 600}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_change_that_is_not_implemented_is_an_error(
    engine: Engine, world: dict[str, Made], change: dict[str, Any], preview: bool
) -> None:
    made = world[INSTANCE]
    error = refusal(lambda: engine.update(INSTANCE, made.id, made.inputs, made.inputs | change, preview=preview))
    assert error.details() == (
        f"{INSTANCE}: the stand-in does not implement a change of {next(iter(change))!r} in place; "
        "replace the resource (replace_on_changes=[...])"
    )


def test_an_unknown_property_is_an_error_that_names_it(engine: Engine, world: dict[str, Made]) -> None:
    inputs = world[INSTANCE].inputs
    metadata = inputs["metadataOptions"] | {"httpProtocolIpv6": "enabled"}
    _, failures = engine.check(INSTANCE, inputs | {"hibernation": True, "metadataOptions": metadata})
    assert failures == {
        "hibernation": f"{INSTANCE}: the stand-in does not implement the property 'hibernation'",
        "metadataOptions.httpProtocolIpv6": (
            f"{INSTANCE}: the stand-in does not implement the property 'metadataOptions.httpProtocolIpv6'"
        ),
    }
    rule = {"id": "a", "status": "Enabled", "filter": {"prefix": ""}, "transitions": []}
    _, failures = engine.check(LIFECYCLE, {"bucket": "b", "rules": [rule]})
    assert set(failures) == {"rules[0].transitions"}
    _, failures = engine.check(OBJECT, {"bucket": "b", "key": "k", "source": {**ASSET_SIGNATURE, "text": "t"}})
    assert set(failures) == {"source"}
    _, failures = engine.check(ENDPOINT, {"vpcId": "v", "serviceName": "s", "vpcEndpointType": "Interface"})
    assert set(failures) == {"vpcEndpointType"}


def test_a_missing_property_is_an_error_that_names_it(engine: Engine) -> None:
    _, failures = engine.check(SUBNET, {"vpcId": "vpc-0"})
    assert failures == {
        "cidrBlock": f"{SUBNET}: the property 'cidrBlock' is missing",
        "availabilityZone": f"{SUBNET}: the property 'availabilityZone' is missing",
    }


def test_an_unknown_type_is_an_error_that_names_it(engine: Engine) -> None:
    error = refusal(lambda: engine.check("aws:ec2/natGateway:NatGateway", {}))
    reason = "the stand-in does not implement the resource type aws:ec2/natGateway:NatGateway"
    assert error.details() == reason


def test_an_unknown_function_or_argument_is_an_error_that_names_it(engine: Engine) -> None:
    error = refusal(lambda: engine.invoke("aws:ec2/getAmi:getAmi"))
    assert error.details() == "the stand-in does not implement the function aws:ec2/getAmi:getAmi"
    token = "aws:index/getRegion:getRegion"
    answer = engine.stub.Invoke(proto.InvokeRequest(tok=token, args=to_struct({"endpoint": "e"})))
    assert [(failure.property, failure.reason) for failure in answer.failures] == [
        ("endpoint", f"{token}: the stand-in does not implement this argument")
    ]


def test_an_unknown_setting_of_the_provider_is_an_error_that_names_it(engine: Engine) -> None:
    settings = to_struct({"region": REGION, "defaultTags": "{}"})
    answer = engine.stub.CheckConfig(proto.CheckRequest(news=settings))
    assert [failure.property for failure in answer.failures] == ["defaultTags"]


def test_another_region_replaces_the_provider(engine: Engine) -> None:
    old, new = to_struct({"region": REGION}), to_struct({"region": "eu-central-1"})
    assert list(engine.stub.DiffConfig(proto.DiffRequest(old_inputs=old, news=new)).replaces) == ["region"]
    same = engine.stub.DiffConfig(proto.DiffRequest(old_inputs=old, news=old))
    assert same.changes == proto.DiffResponse.DIFF_NONE


def test_a_preview_knows_the_inputs_and_makes_nothing(engine: Engine, cloud: Cloud) -> None:
    count = len(cloud.client("ec2").describe_subnets()["Subnets"])
    given = {"vpcId": UNKNOWN, "cidrBlock": "10.64.0.0/20", "availabilityZone": f"{REGION}a"}
    inputs, failures = engine.check(SUBNET, given)
    assert failures == {}
    assert engine.preview(SUBNET, inputs) == {
        **given,
        "mapPublicIpOnLaunch": False,
        "tags": {},
        "arn": UNKNOWN,
        "availabilityZoneId": UNKNOWN,
        "ownerId": UNKNOWN,
    }
    assert len(cloud.client("ec2").describe_subnets()["Subnets"]) == count


def test_an_object_changes_with_its_content_and_not_with_its_path(
    engine: Engine, world: dict[str, Made], cloud: Cloud, tmp_path: Path
) -> None:
    made = world[OBJECT]
    moved = made.inputs | {"source": asset(tmp_path / "moved", b"context")}
    assert list(engine.diff(OBJECT, made.inputs, moved).diffs) == []
    edited = made.inputs | {"source": asset(tmp_path / "edited", b"another")}
    assert list(engine.diff(OBJECT, made.inputs, edited).diffs) == ["source"]

    engine.update(OBJECT, made.id, made.inputs, edited)
    s3 = cloud.client("s3")
    where = {"Bucket": made.inputs["bucket"], "Key": made.inputs["key"]}
    assert s3.get_object(**where)["Body"].read() == b"another"
    tags = {tag["Key"]: tag["Value"] for tag in s3.get_object_tagging(**where)["TagSet"]}
    assert tags == made.inputs["tags"]
    engine.update(OBJECT, made.id, edited, made.inputs)


def test_what_somebody_else_changed_is_seen_and_put_right(engine: Engine, world: dict[str, Made], cloud: Cloud) -> None:
    made = world[ROLE_POLICY]
    role, name = made.inputs["role"], made.inputs["name"]
    cloud.client("iam").put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=policy("*"))
    found = engine.read(ROLE_POLICY, made)
    assert found is not None
    assert list(engine.diff(ROLE_POLICY, found.inputs, made.inputs).diffs) == ["policy"]

    engine.update(ROLE_POLICY, made.id, found.inputs, made.inputs)
    answer = cloud.client("iam").get_role_policy(RoleName=role, PolicyName=name)
    assert answer["PolicyDocument"] == json.loads(made.inputs["policy"])


def test_deleting_leaves_nothing_and_can_be_repeated(engine: Engine, tmp_path: Path) -> None:
    world = make_world(engine, tmp_path)
    for token, made in reversed(world.items()):
        assert engine.read(token, made) is not None
        engine.delete(token, made)
        assert engine.read(token, made) is None, f"{token} is still there"
        if token != ENDPOINT:  # moto fails to delete an endpoint whose routes are gone; AWS says that it is not found
            engine.delete(token, made)


def test_an_instance_that_ended_itself_is_gone(engine: Engine, world: dict[str, Made], cloud: Cloud) -> None:
    inputs = world[INSTANCE].inputs
    made = engine.create(INSTANCE, inputs)
    cloud.set_instance_state(made.id, "stopped")
    stopped = engine.read(INSTANCE, made)
    assert stopped is not None
    assert stopped.state["instanceState"] == "stopped"
    cloud.set_instance_state(made.id, "terminated")
    assert engine.read(INSTANCE, made) is None
    engine.delete(INSTANCE, made)


def test_a_bucket_with_objects_is_deleted_only_by_force(engine: Engine, cloud: Cloud) -> None:
    name, s3 = f"bucket-{secrets.token_hex(4)}", cloud.client("s3")
    kept = engine.create(BUCKET, {"bucket": name})
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    for content in (b"one", b"two"):
        s3.put_object(Bucket=name, Key="cache/known", Body=content)
    s3.delete_object(Bucket=name, Key="cache/known")
    error = refusal(lambda: engine.delete(BUCKET, kept))
    assert "BucketNotEmpty" in str(error.details())

    forced = kept.inputs | {"forceDestroy": True}
    state = engine.update(BUCKET, name, kept.inputs, forced)
    engine.delete(BUCKET, Made(name, forced, state))
    assert engine.read(BUCKET, kept) is None


def test_a_repository_with_images_is_deleted_only_by_force(engine: Engine, cloud: Cloud) -> None:
    name = f"repository-{secrets.token_hex(4)}"
    kept = engine.create(REPOSITORY, {"name": name})
    config = {
        "mediaType": "application/vnd.oci.image.config.v1+json",
        "size": 2,
        "digest": f"sha256:{'0' * 64}",
    }
    kind = "application/vnd.oci.image.manifest.v1+json"
    manifest = json.dumps({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": []})
    cloud.client("ecr").put_image(repositoryName=name, imageManifest=manifest, imageTag="probe")
    error = refusal(lambda: engine.delete(REPOSITORY, kept))
    assert "RepositoryNotEmptyException" in str(error.details())

    forced = kept.inputs | {"forceDelete": True}
    state = engine.update(REPOSITORY, name, kept.inputs, forced)
    engine.delete(REPOSITORY, Made(name, forced, state))
    assert engine.read(REPOSITORY, kept) is None


def test_a_bucket_that_exists_is_not_taken_over(engine: Engine, world: dict[str, Made]) -> None:
    error = refusal(lambda: engine.create(BUCKET, {"bucket": world[BUCKET].id}))
    assert str(error.details()).startswith("BucketAlreadyExists: ")


@pytest.mark.parametrize("token", [GATEWAY, PROFILE, LOG_GROUP])
def test_a_creation_that_breaks_off_leaves_the_resource_in_the_state(
    engine: Engine, cloud: Cloud, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    """The gateway is not attached, the profile without a role, the group without its retention."""

    def fail(*_: Any) -> None:
        raise ProviderError("broken off")

    monkeypatch.setattr(server.RESOURCES[token], "settle", fail)
    name = f"broken-{secrets.token_hex(4)}"
    vpc = cloud.client("ec2").create_vpc(CidrBlock="10.66.0.0/16")["Vpc"]["VpcId"]
    cloud.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=trust("ec2.amazonaws.com"))
    inputs: dict[str, Properties] = {
        GATEWAY: {"vpcId": vpc},
        PROFILE: {"name": name, "role": name},
        LOG_GROUP: {"name": name, "retentionInDays": 30},
    }
    metadata: Any = refusal(lambda: engine.create(token, inputs[token])).trailing_metadata()
    failure = proto.ErrorResourceInitFailed()
    status_pb2.Status.FromString(dict(metadata)["grpc-status-details-bin"]).details[0].Unpack(failure)
    assert list(failure.reasons) == ["broken off"]
    broken = Made(failure.id, from_struct(failure.inputs), from_struct(failure.properties))
    found = engine.read(token, broken)
    assert found is not None
    missing = {GATEWAY: ["vpcId"], PROFILE: ["role"], LOG_GROUP: ["retentionInDays"]}
    assert list(engine.diff(token, found.inputs, broken.inputs).diffs) == missing[token]
    engine.delete(token, broken)
    assert engine.read(token, broken) is None


def test_functions_say_what_aws_says(engine: Engine, world: dict[str, Made]) -> None:
    assert engine.invoke("aws:index/getCallerIdentity:getCallerIdentity")["accountId"] == ACCOUNT
    assert engine.invoke("aws:index/getRegion:getRegion")["region"] == REGION
    everyday = {"name": "opt-in-status", "values": ["opt-in-not-required"]}
    zones = engine.invoke("aws:index/getAvailabilityZones:getAvailabilityZones", state="available", filters=[everyday])
    assert zones["names"] == [f"{REGION}{letter}" for letter in "abcdef"]
    image = engine.invoke("aws:ssm/getParameter:getParameter", name="/aws/service/debian/release/13/latest/amd64")
    assert (image["value"], image["type"], image["insecureValue"]) == (
        DEBIAN_IMAGE_ID,
        "String",
        DEBIAN_IMAGE_ID,
    )

    offered = engine.invoke(
        "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings",
        locationType="availability-zone",
        filters=[{"name": "instance-type", "values": ["m7a.8xlarge"]}],
    )
    assert set(offered["instanceTypes"]) == {"m7a.8xlarge"}
    assert set(offered["locations"]) <= set(zones["names"])
    described = engine.invoke("aws:ec2/getInstanceType:getInstanceType", instanceType="g4dn.xlarge")
    assert (described["defaultVcpus"], described["memorySize"]) == (4, 16384)
    assert described["supportedArchitectures"] == ["x86_64"]
    assert [(gpu["manufacturer"], gpu["count"]) for gpu in described["gpuses"]] == [("NVIDIA", 1)]

    tags = world[INSTANCE].inputs["tags"]
    running = engine.invoke("aws:ec2/getInstances:getInstances", instanceTags=tags)
    assert running["ids"] == [world[INSTANCE].id]
    stopped = engine.invoke("aws:ec2/getInstances:getInstances", instanceTags=tags, instanceStateNames=["stopped"])
    assert stopped["ids"] == []


def test_what_is_not_consistent_yet_is_asked_for_again(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    role, iam = f"role-{secrets.token_hex(4)}", cloud.client("iam")
    later = threading.Timer(
        1.5, lambda: iam.create_role(RoleName=role, AssumeRolePolicyDocument=trust("ec2.amazonaws.com"))
    )
    later.start()
    answer = aws.retry(lambda: cloud.client("iam").get_role(RoleName=role), aws.code_in("NoSuchEntity"))
    assert answer["Role"]["RoleName"] == role
    later.join()

    asked: list[None] = []

    def ask() -> None:
        asked.append(None)
        iam.get_role(RoleName="never")

    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(aws, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    monkeypatch.setattr(aws, "CONSISTENCY_SECONDS", 3.0)
    with pytest.raises(ClientError, match="NoSuchEntity"):
        aws.retry(ask, aws.code_in("NoSuchEntity"))
    assert (len(asked), now) == (5, [4.0])
    asked.clear()
    with pytest.raises(ClientError, match="NoSuchEntity"):
        aws.retry(ask, aws.code_in("DependencyViolation"))
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        (
            "InvalidParameterValue",
            "Value (a) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
            True,
        ),
        ("InvalidParameterValue", "Value (a) for parameter subnetId is invalid.", False),
        ("UnauthorizedOperation", "Invalid IAM Instance Profile name", False),
    ],
)
def test_only_a_profile_that_is_not_known_yet_is_retried(code: str, message: str, expected: bool) -> None:
    error = ClientError({"Error": {"Code": code, "Message": message}}, "RunInstances")
    assert instance.profile_not_known_yet(error) is expected


def test_an_instance_waits_until_ec2_knows_its_profile(
    engine: Engine, world: dict[str, Made], cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud.settings, "profile_delay", 2.0)
    name = f"profile-{secrets.token_hex(4)}"
    began = time.monotonic()
    engine.create(PROFILE, {"name": name, "role": world[ROLE].id})
    made = engine.create(INSTANCE, world[INSTANCE].inputs | {"iamInstanceProfile": name})
    assert time.monotonic() - began >= 2
    assert made.state["iamInstanceProfile"] == name
    engine.delete(INSTANCE, made)


def test_a_killed_engine_leaves_no_provider_behind() -> None:
    command = f"{shlex.quote(sys.executable)} -m rehearsal.provider & echo $!; wait"
    with subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE, text=True) as engine:
        assert engine.stdout is not None
        provider, _port = int(engine.stdout.readline()), int(engine.stdout.readline())
        engine.kill()
    deadline = time.monotonic() + 20
    while Path(f"/proc/{provider}").exists():
        assert time.monotonic() < deadline, "the provider outlives its engine"
        time.sleep(0.2)
