"""A cloud for the tests of the rehearsal: real HTTPS on loopback, real clients."""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from rehearsal.cloud import ACCOUNT, REGION
from rehearsal.cloud.backends import DEBIAN_IMAGE_ID
from rehearsal.cloud.credentials import Credential
from rehearsal.cloud.server import Cloud
from rehearsal.cloud.serving import HttpServer
from rehearsal.setup import Setup

# Boxes in the tests have loopback addresses, so that a client can really come from them.
VPC_BLOCK = "127.64.0.0/16"
SUBNET_BLOCK = "127.64.0.0/20"
# moto chooses one at random otherwise, and not every zone offers every type.
ZONE = "us-east-1a"
OPERATOR_ARN = f"arn:aws:iam::{ACCOUNT}:user/operator"


def listening(address: str = "127.0.0.1") -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, 0))
    listener.listen(64)
    return listener


@pytest.fixture(scope="session", autouse=True)
def tools(setup: Setup) -> Setup:
    """The rehearsal's programs: the registry's is found by its name, on PATH."""
    return setup


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory, tools: Setup) -> Iterator[Cloud]:
    imds = listening()
    with Cloud(tmp_path_factory.mktemp("cloud")) as cloud:
        cloud.start([listening()], imds, with_registry=tools.cannot_boot is None)
        yield cloud


@pytest.fixture
def bucket(cloud: Cloud) -> str:
    """A new bucket with the object `cache/known`."""
    name = f"bucket-{secrets.token_hex(4)}"
    cloud.client("s3").create_bucket(Bucket=name)
    cloud.client("s3").put_object(Bucket=name, Key="cache/known", Body=b"known")
    return name


@pytest.fixture
def plain_endpoint(cloud: Cloud) -> Iterator[str]:
    """The same cloud over plain HTTP, which its own sockets never speak; who has no TLS is to be refused."""
    server = HttpServer(listening(), cloud._front, cloud._journal.error)
    server.start()
    yield f"http://{server.name}:{server.port}"
    server.close()


@dataclass(frozen=True)
class Network:
    vpc: str
    subnet: str
    route_table: str


@pytest.fixture(scope="module")
def network(cloud: Cloud) -> Network:
    ec2 = cloud.client("ec2")
    vpc = ec2.create_vpc(CidrBlock=VPC_BLOCK)["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock=SUBNET_BLOCK, AvailabilityZone=ZONE)["Subnet"]["SubnetId"]
    ec2.modify_subnet_attribute(SubnetId=subnet, MapPublicIpOnLaunch={"Value": True})
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)
    return Network(vpc, subnet, table)


def document(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def allow(actions: list[str], *resources: str) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": actions, "Resource": list(resources)}


def trust_account(principal: str) -> str:
    """Trust the account, if the caller's aws:PrincipalArn is like `principal`."""
    return document(
        {
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
            "Action": "sts:AssumeRole",
            "Condition": {"ArnLike": {"aws:PrincipalArn": principal}},
        }
    )


def make_role(
    cloud: Cloud, *, trust: str = trust_account(OPERATOR_ARN), policy: str | None = None, longest: int = 3600
) -> str:
    """A new role under the path /test/; its ARN."""
    iam = cloud.client("iam")
    name = f"role-{secrets.token_hex(4)}"
    created = iam.create_role(Path="/test/", RoleName=name, AssumeRolePolicyDocument=trust, MaxSessionDuration=longest)
    if policy is not None:
        iam.put_role_policy(RoleName=name, PolicyName="inline", PolicyDocument=policy)
    arn: str = created["Role"]["Arn"]
    return arn


def assume(
    cloud: Cloud, role: str, caller: Credential | None = None, *, name: str = "tester", **more: Any
) -> Credential:
    answer = cloud.client("sts", caller).assume_role(RoleArn=role, RoleSessionName=name, **more)
    credential = cloud.keyring.find(answer["Credentials"]["AccessKeyId"])
    assert credential is not None
    return credential


def chain(cloud: Cloud, *, longest: int = 12 * 3600) -> tuple[Credential, str]:
    """A session that may assume a second role, and that role."""
    first = make_role(cloud)
    second = make_role(cloud, trust=trust_account(first), longest=longest)
    cloud.client("iam").put_role_policy(
        RoleName=first.rsplit("/", 1)[1],
        PolicyName="assume",
        PolicyDocument=document(allow(["sts:AssumeRole"], second)),
    )
    return assume(cloud, first, name="first"), second


def client(
    cloud: Cloud, service: str, credential: Credential | None = None, *, attempts: int = 1, endpoint: str | None = None
) -> Any:
    """A client that sends what it is told and does not try again: AWS is asked by other programs too."""
    used = credential or cloud.operator
    return boto3.client(
        service,  # type: ignore[call-overload]  # one overload for each literal name
        endpoint_url=endpoint or cloud.endpoint,
        verify=str(cloud.ca_certificate),
        region_name=REGION,
        aws_access_key_id=used.access_key_id,
        aws_secret_access_key=used.secret_access_key,
        aws_session_token=used.token,
        config=Config(parameter_validation=False, retries={"total_max_attempts": attempts}),
    )


def error_of(call: Callable[[], Any]) -> tuple[int, str, str]:
    """AWS's answer to a call that it refuses: status, code and text."""
    with pytest.raises(ClientError) as caught:
        call()
    response: Any = caught.value.response
    return (response["ResponseMetadata"]["HTTPStatusCode"], response["Error"]["Code"], response["Error"]["Message"])


def launch(cloud: Cloud, network: Network, **more: Any) -> tuple[str, str]:
    """A new instance: its id and its private address."""
    instance = cloud.client("ec2").run_instances(
        ImageId=DEBIAN_IMAGE_ID,
        InstanceType="m7a.large",
        MinCount=1,
        MaxCount=1,
        SubnetId=network.subnet,
        MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        **more,
    )["Instances"][0]
    return instance["InstanceId"], instance["PrivateIpAddress"]


def coming_from(client: Any, address: str) -> Any:
    """The same boto3 client, whose connections come from a loopback address."""
    client._endpoint.http_session._manager.connection_pool_kw["source_address"] = (address, 0)
    return client


def journal(directory: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / name).read_text().splitlines()]
