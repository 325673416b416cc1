"""The metadata service: real HTTP from a box's address."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest

from rehearsal.cloud import ACCOUNT
from rehearsal.cloud.backends import DEBIAN_IMAGE_ID
from rehearsal.cloud.imds import limit_hops
from rehearsal.cloud.server import Cloud
from tests.rehearsal.conftest import (
    Network,
    allow,
    document,
    journal,
    launch,
    listening,
    make_role,
    trust_account,
)
from tests.rehearsal.conftest import network as network  # the fixture of the same cloud

USER_DATA = b"#cloud-config\nbootcmd: []\n"
TTL = "X-aws-ec2-metadata-token-ttl-seconds"


@pytest.fixture(scope="module")
def listener() -> socket.socket:
    return listening()


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory, listener: socket.socket) -> Iterator[Cloud]:
    with Cloud(tmp_path_factory.mktemp("cloud")) as cloud:
        cloud.start([listening()], listener)
        yield cloud


@dataclass(frozen=True)
class Box:
    id: str
    address: str
    role: str
    port: int

    def ask(
        self, method: str, path: str, headers: dict[str, str] | None = None, *, source: str | None = None
    ) -> tuple[int, str, dict[str, str]]:
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.port, source_address=(source or self.address, 0), timeout=60
        )
        with contextlib.closing(connection):
            connection.request(method, path, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode("latin-1"), dict(answer.getheaders())

    def token(self) -> str:
        return self.ask("PUT", "/latest/api/token", {TTL: "60"})[1]

    def get(self, path: str) -> tuple[int, str]:
        return self.ask("GET", path, {"X-aws-ec2-metadata-token": self.token()})[:2]


def make_box(cloud: Cloud, network: Network, listener: socket.socket, trust: str) -> Box:
    role = make_role(cloud, trust=trust, policy=document(allow(["sts:AssumeRole"], "*")))
    name = role.rsplit("/", 1)[1]
    iam = cloud.client("iam")
    iam.create_instance_profile(InstanceProfileName=name, Path="/test/")
    iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
    instance, address = launch(cloud, network, UserData=USER_DATA.decode(), IamInstanceProfile={"Name": name})
    return Box(instance, address, role, listener.getsockname()[1])


def trust_services(*names: str, **more: Any) -> str:
    services = {"Service": list(names)}
    return document({"Effect": "Allow", "Principal": services, "Action": "sts:AssumeRole", **more})


@pytest.fixture(scope="module")
def box(cloud: Cloud, network: Network, listener: socket.socket) -> Box:
    return make_box(cloud, network, listener, trust_services("ec2.amazonaws.com"))


def test_without_a_token_nothing_is_said(box: Box) -> None:
    for path in (
        "/",
        "/latest/meta-data/",
        "/latest/user-data",
        "/latest/meta-data/iam/security-credentials/",
    ):
        assert box.ask("GET", path)[:2] == (401, "")
        assert box.ask("GET", path, {"X-aws-ec2-metadata-token": "made up"})[:2] == (401, "")


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("PUT", {TTL: "1"}, 200),
        ("PUT", {TTL: "21600"}, 200),
        ("PUT", {TTL: "21601"}, 400),
        ("PUT", {TTL: "0"}, 400),
        ("PUT", {TTL: "soon"}, 400),
        ("PUT", {}, 400),
        ("PUT", {TTL: "60", "X-Forwarded-For": "10.0.0.1"}, 403),
        ("GET", {TTL: "60"}, 405),
        ("POST", {TTL: "60"}, 405),
    ],
)
def test_token(box: Box, method: str, headers: dict[str, str], status: int) -> None:
    answered, body, sent = box.ask(method, "/latest/api/token", headers)
    assert answered == status
    assert (len(body) == 56) is (status == 200)
    if status == 200:
        assert sent[TTL] == headers[TTL]


def test_token_ends(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    token = {"X-aws-ec2-metadata-token": box.ask("PUT", "/latest/api/token", {TTL: "60"})[1]}
    assert box.ask("GET", "/latest/meta-data/instance-id", token)[:2] == (200, box.id)

    class Later:
        @staticmethod
        def now(zone: tzinfo) -> datetime:
            return datetime.now(zone) + timedelta(seconds=61)

    monkeypatch.setattr("rehearsal.cloud.imds.datetime", Later)
    assert box.ask("GET", "/latest/meta-data/instance-id", token)[:2] == (401, "")


def test_who_asks_is_told_by_the_address(box: Box, cloud: Cloud, network: Network) -> None:
    assert box.ask("PUT", "/latest/api/token", {TTL: "60"}, source="127.0.0.9")[0] == 404
    other, address = launch(cloud, network)
    token = {"X-aws-ec2-metadata-token": box.token()}
    # A token is the instance's that asked for it.
    assert box.ask("GET", "/latest/meta-data/instance-id", token, source=address)[0] == 401
    token = {"X-aws-ec2-metadata-token": box.ask("PUT", "/latest/api/token", {TTL: "60"}, source=address)[1]}
    assert box.ask("GET", "/latest/meta-data/instance-id", token, source=address)[:2] == (200, other)
    assert box.ask("GET", "/latest/user-data", token, source=address)[0] == 404
    assert box.ask("GET", "/latest/meta-data/iam/", token, source=address)[0] == 404
    cloud.set_instance_state(other, "terminated")
    assert box.ask("GET", "/latest/meta-data/instance-id", token, source=address)[0] == 404


def test_values(box: Box, cloud: Cloud, network: Network) -> None:
    instance = cloud.client("ec2").describe_instances(InstanceIds=[box.id])["Reservations"][0]["Instances"][0]
    interface = instance["NetworkInterfaces"][0]
    mac = f"/latest/meta-data/network/interfaces/macs/{interface['MacAddress']}"
    dashed = box.address.replace(".", "-")
    expected = {
        "ami-id": DEBIAN_IMAGE_ID,
        "hostname": f"ip-{dashed}.ec2.internal",
        "instance-id": box.id,
        "instance-type": "m7a.large",
        "local-hostname": f"ip-{dashed}.ec2.internal",
        "local-ipv4": box.address,
        "mac": interface["MacAddress"],
        "placement/availability-zone": instance["Placement"]["AvailabilityZone"],
        "placement/region": "us-east-1",
        "public-ipv4": instance["PublicIpAddress"],
        "services/domain": "amazonaws.com",
        "services/partition": "aws",
    }
    for path, value in expected.items():
        assert box.get(f"/latest/meta-data/{path}") == (200, value), path
    assert box.get(f"{mac}/device-number") == (200, "0")
    assert box.get(f"{mac}/local-ipv4s") == (200, box.address)
    assert box.get(f"{mac}/subnet-id") == (200, network.subnet)
    assert box.get(f"{mac}/vpc-id") == (200, network.vpc)
    assert box.get(f"{mac}/subnet-ipv4-cidr-block") == (200, "127.64.0.0/20")
    assert box.get(f"{mac}/ipv4-associations/{instance['PublicIpAddress']}") == (200, box.address)
    assert box.get("/latest/meta-data/public-keys/") == (404, "")
    assert box.get("/latest/meta-data/instance-id/more") == (404, "")
    assert box.get("/2011-01-01/meta-data/instance-id") == (404, "")
    assert box.get("/2021-03-23/meta-data/instance-id") == (200, box.id)


def test_listings(box: Box) -> None:
    """Directories end in a slash, except in the two upper levels; no line follows the last."""
    assert box.get("/")[1].split("\n") == [
        "1.0",
        "2009-04-04",
        "2016-09-02",
        "2018-09-24",
        "2021-03-23",
        "latest",
    ]
    assert box.get("/latest/")[1].split("\n") == ["dynamic", "meta-data", "user-data"]
    names = box.get("/latest/meta-data/")[1].split("\n")
    assert {"iam/", "network/", "placement/", "services/"} == {name for name in names if name.endswith("/")}
    assert {"ami-id", "instance-id", "local-ipv4", "mac"} < set(names)
    assert box.get("/latest/meta-data/iam/")[1] == "info\nsecurity-credentials/"
    assert box.get("/latest/meta-data/iam")[1] == "info\nsecurity-credentials/"
    assert box.get("/latest/meta-data/network/")[1] == "interfaces/"
    assert box.get("/latest/dynamic/")[1] == "instance-identity/"


def test_user_data(box: Box, cloud: Cloud, network: Network) -> None:
    assert box.get("/latest/user-data") == (200, USER_DATA.decode())
    packed = gzip.compress(USER_DATA)
    _, address = launch(cloud, network, UserData=packed)
    token = box.ask("PUT", "/latest/api/token", {TTL: "60"}, source=address)[1]
    answer = box.ask("GET", "/latest/user-data", {"X-aws-ec2-metadata-token": token}, source=address)
    assert answer[1].encode("latin-1") == packed


def test_identity_document(box: Box) -> None:
    document = json.loads(box.get("/latest/dynamic/instance-identity/document")[1])
    assert {name: document[name] for name in ("accountId", "instanceId", "privateIp", "region", "imageId")} == {
        "accountId": ACCOUNT,
        "instanceId": box.id,
        "privateIp": box.address,
        "region": "us-east-1",
        "imageId": DEBIAN_IMAGE_ID,
    }


def test_role_credentials(box: Box, cloud: Cloud) -> None:
    name = box.role.rsplit("/", 1)[1]
    assert box.get("/latest/meta-data/iam/security-credentials/") == (200, name)
    information = json.loads(box.get("/latest/meta-data/iam/info")[1])
    assert information["Code"] == "Success"
    assert information["InstanceProfileArn"] == f"arn:aws:iam::{ACCOUNT}:instance-profile/test/{name}"
    said = json.loads(box.get(f"/latest/meta-data/iam/security-credentials/{name}")[1])
    assert said.keys() == {
        "Code",
        "LastUpdated",
        "Type",
        "AccessKeyId",
        "SecretAccessKey",
        "Token",
        "Expiration",
    }
    assert (said["Code"], said["Type"]) == ("Success", "AWS-HMAC")
    life = datetime.fromisoformat(said["Expiration"]) - datetime.now(UTC)
    assert timedelta(hours=5, minutes=58) < life <= timedelta(hours=6)
    credential = cloud.keyring.find(said["AccessKeyId"])
    assert credential is not None
    assert (credential.secret_access_key, credential.token) == (said["SecretAccessKey"], said["Token"])
    arn = f"arn:aws:sts::{ACCOUNT}:assumed-role/{name}/{box.id}"
    assert cloud.client("sts", credential).get_caller_identity()["Arn"] == arn
    # Asked again, the same: SDKs ask often, and new keys each time would hide a rotation.
    assert json.loads(box.get(f"/latest/meta-data/iam/security-credentials/{name}")[1]) == said
    # An instance profile's session is a role session: the next role is chained.
    second = make_role(cloud, trust=trust_account(box.role), longest=12 * 3600)
    sts = cloud.client("sts", credential)
    with pytest.raises(sts.exceptions.ClientError, match="1 hour session limit for roles assumed by role chaining"):
        sts.assume_role(RoleArn=second, RoleSessionName="box", DurationSeconds=3601)
    assert sts.assume_role(RoleArn=second, RoleSessionName="box", DurationSeconds=900)["Credentials"]
    cloud.keyring.expire(said["AccessKeyId"])


def test_role_credentials_rotate(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    name = box.role.rsplit("/", 1)[1]
    path = f"/latest/meta-data/iam/security-credentials/{name}"
    first = json.loads(box.get(path)[1])
    monkeypatch.setattr("rehearsal.cloud.imds.ROTATE_BEFORE_END", timedelta(hours=6))
    assert json.loads(box.get(path)[1])["AccessKeyId"] != first["AccessKeyId"]


@pytest.mark.parametrize(
    "trust", [trust_account("*"), trust_services("lambda.amazonaws.com")], ids=["account", "lambda"]
)
def test_ec2_is_trusted(cloud: Cloud, network: Network, listener: socket.socket, trust: str) -> None:
    box = make_box(cloud, network, listener, trust)
    name = box.role.rsplit("/", 1)[1]
    path = f"/latest/meta-data/iam/security-credentials/{name}"
    status, body = box.get(path)
    said = json.loads(body)
    assert datetime.now(UTC) - datetime.fromisoformat(said.pop("LastUpdated")) < timedelta(minutes=5)
    guide = "https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_iam-ec2.html"
    message = (
        f"EC2 cannot assume the role {name}.  Please see documentation at {guide}#troubleshoot_iam-ec2_errors-info-doc."
    )
    assert (status, said) == (200, {"Code": "AssumeRoleUnauthorizedAccess", "Message": message})
    # The role is still named, as its profile has it.
    assert box.get("/latest/meta-data/iam/security-credentials/") == (200, name)
    with cloud.without("ec2_is_trusted"):
        assert json.loads(box.get(path)[1])["Code"] == "Success"


def test_trust_in_time_is_enough(cloud: Cloud, network: Network, listener: socket.socket) -> None:
    box = make_box(cloud, network, listener, trust_services("lambda.amazonaws.com"))
    name = box.role.rsplit("/", 1)[1]
    path = f"/latest/meta-data/iam/security-credentials/{name}"
    assert json.loads(box.get(path)[1])["Code"] == "AssumeRoleUnauthorizedAccess"
    both = trust_services("lambda.amazonaws.com", "ec2.amazonaws.com")
    cloud.client("iam").update_assume_role_policy(RoleName=name, PolicyDocument=both)
    assert json.loads(box.get(path)[1])["Code"] == "Success"


def test_trust_that_cannot_be_decided_is_said(cloud: Cloud, network: Network, listener: socket.socket) -> None:
    condition = {"StringEquals": {"aws:SourceAccount": ACCOUNT}}
    box = make_box(cloud, network, listener, trust_services("ec2.amazonaws.com", Condition=condition))
    status, body = box.get(f"/latest/meta-data/iam/security-credentials/{box.role.rsplit('/', 1)[1]}")
    assert status == 501
    assert "condition key 'aws:SourceAccount' is not known" in body


def test_each_secret_is_in_the_journal(box: Box, cloud: Cloud) -> None:
    name = box.role.rsplit("/", 1)[1]
    said = json.loads(box.get(f"/latest/meta-data/iam/security-credentials/{name}")[1])
    kinds = {entry["value"]: entry["kind"] for entry in journal(cloud.directory, "issued.jsonl")}
    assert kinds[said["AccessKeyId"]] == "AccessKeyId"
    assert kinds[said["SecretAccessKey"]] == "SecretAccessKey"
    assert kinds[said["Token"]] == "SessionToken"
    assert Path(cloud.directory / "issued.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("cloud")  # sets the listener's limit when it starts
def test_packets_live_for_one_hop(listener: socket.socket) -> None:
    assert listener.getsockopt(socket.IPPROTO_IP, socket.IP_TTL) == 1
    # Linux hands the value on to accepted connections, which send the answers.
    with listening() as other:
        limit_hops(other)
        with socket.create_connection(other.getsockname()), other.accept()[0] as accepted:
            assert accepted.getsockopt(socket.IPPROTO_IP, socket.IP_TTL) == 1
