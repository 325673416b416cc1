"""The cloud as a whole: sockets, certificates, the operator's side, and leaving nothing behind."""

from __future__ import annotations

import concurrent.futures
import http.client
import ipaddress
import os
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from rehearsal.cloud import REGION
from rehearsal.cloud.backends import DEBIAN_IMAGE_ID, DEBIAN_IMAGE_PARAMETER
from rehearsal.cloud.server import Cloud
from rehearsal.cloud.tls import Authority
from tests.rehearsal.conftest import OPERATOR_ARN, SUBNET_BLOCK, Network, client, journal, launch, listening


def strict_context(cloud: Cloud) -> ssl.SSLContext:
    """As Python 3.13 verifies by default."""
    context = ssl.create_default_context(cafile=str(cloud.ca_certificate))
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


@pytest.mark.parametrize(
    ("name", "covered"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("iam.amazonaws.com", True),
        ("s3.amazonaws.com", True),
        ("sts.us-east-1.amazonaws.com", True),
        ("s3.us-east-1.amazonaws.com", True),
        ("a-bucket.s3.us-east-1.amazonaws.com", True),
        ("a-bucket.s3.amazonaws.com", True),
        ("api.ecr.us-east-1.amazonaws.com", True),
        ("123456789012.dkr.ecr.us-east-1.amazonaws.com", True),
        ("example.org", False),
        ("a.b.s3.us-east-1.amazonaws.com", False),
    ],
)
def test_certificate(cloud: Cloud, name: str, covered: bool) -> None:
    with socket.create_connection(("127.0.0.1", int(cloud.endpoint.rsplit(":", 1)[1]))) as plain:
        context = strict_context(cloud)
        if covered:
            with context.wrap_socket(plain, server_hostname=name) as stream:
                assert stream.version() == "TLSv1.3"
        else:
            with pytest.raises(ssl.SSLCertVerificationError):
                context.wrap_socket(plain, server_hostname=name)


def test_certificates_are_made_once(tmp_path: Path) -> None:
    first = Authority(tmp_path / "tls").make().certificate.read_bytes()
    assert Authority(tmp_path / "tls").make().certificate.read_bytes() == first
    assert {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "tls").iterdir()} == {
        "ca.crt": 0o644,
        "server.crt": 0o644,
        "server.key": 0o600,
    }


def test_operator_environment(cloud: Cloud) -> None:
    """With these variables and nothing else, an AWS client in another process works."""
    environment = cloud.operator_environment()
    assert environment.keys() == {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
        "AWS_ENDPOINT_URL",
        "AWS_CA_BUNDLE",
        "AWS_EC2_METADATA_DISABLED",
    }
    code = "import boto3; s = boto3.client('sts'); print(s.get_caller_identity()['Arn'], s.meta.region_name)"
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [OPERATOR_ARN, REGION]


def test_debian_image(cloud: Cloud, network: Network) -> None:
    parameter = cloud.client("ssm").get_parameter(Name=DEBIAN_IMAGE_PARAMETER)["Parameter"]
    assert parameter["Value"] == DEBIAN_IMAGE_ID
    images = cloud.client("ec2").describe_images(ImageIds=[parameter["Value"]])["Images"]
    assert [(image["RootDeviceName"], image["Architecture"], image["State"]) for image in images] == [
        ("/dev/xvda", "x86_64", "available")
    ]
    instance, address = launch(cloud, network)
    described = cloud.client("ec2").describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0]
    assert described["ImageId"] == DEBIAN_IMAGE_ID
    assert described["RootDeviceName"] == "/dev/xvda"
    assert ipaddress.ip_address(address) in ipaddress.ip_network(SUBNET_BLOCK)
    assert described["PublicIpAddress"]


def test_addresses_differ(cloud: Cloud, network: Network) -> None:
    addresses = [launch(cloud, network)[1] for _ in range(5)]
    assert len(set(addresses)) == 5


def test_set_instance_state(cloud: Cloud, network: Network) -> None:
    instance, _ = launch(cloud, network)

    def state() -> str:
        found = cloud.client("ec2").describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0]
        name: str = found["State"]["Name"]
        return name

    assert state() == "running"
    for wanted in ("stopped", "running", "terminated"):
        cloud.set_instance_state(instance, wanted)
        assert state() == wanted
    with pytest.raises(ValueError, match="state is 'gone'; stopped, terminated and running are allowed"):
        cloud.set_instance_state(instance, "gone")


def test_one_connection_serves_many_requests(cloud: Cloud, bucket: str) -> None:
    connection = http.client.HTTPSConnection(cloud.endpoint.removeprefix("https://"), context=strict_context(cloud))
    scope = f"{cloud.operator.access_key_id}/20260101/us-east-1/s3/aws4_request"
    headers = {"Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"}
    connection.connect()
    used = connection.sock
    for number in range(100):
        connection.request("PUT", f"/{bucket}/object-{number}", body=bytes(2000), headers=headers)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"")
    assert connection.sock is used
    connection.close()


def test_bodies_in_chunks_and_bodies_unread(cloud: Cloud, bucket: str) -> None:
    """A body that a refused request leaves behind does not become the next request."""
    connection = http.client.HTTPSConnection(cloud.endpoint.removeprefix("https://"), context=strict_context(cloud))
    connection.request("PUT", f"/{bucket}/refused", body=bytes(100_000))
    refused = connection.getresponse()
    assert (refused.status, b"AccessDenied" in refused.read()) == (403, True)
    connection.request(
        "PUT",
        "/v2/box/none/blobs/x",
        body=bytes(100_000),
        headers={"Host": "123456789012.dkr.ecr.us-east-1.amazonaws.com"},
    )
    unread = connection.getresponse()
    assert (unread.status, b"UNAUTHORIZED" in unread.read()) == (401, True)
    scope = f"{cloud.operator.access_key_id}/20260101/us-east-1/s3/aws4_request"
    headers = {"Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"}
    connection.request(
        "PUT",
        f"/{bucket}/chunked",
        body=iter([b"one", b"two" * 50_000]),
        headers=headers,
        encode_chunked=True,
    )
    taken = connection.getresponse()
    assert (taken.status, taken.read()) == (200, b"")
    connection.close()
    body = cloud.client("s3").get_object(Bucket=bucket, Key="chunked")["Body"].read()
    assert body == b"one" + b"two" * 50_000


def test_a_silent_client_holds_up_nobody(cloud: Cloud) -> None:
    with socket.create_connection(("127.0.0.1", int(cloud.endpoint.rsplit(":", 1)[1]))):
        # Asks once, and gives up long before the server gives the silent one up.
        client(cloud, "sts").get_caller_identity()


def test_clients_in_parallel(cloud: Cloud, bucket: str) -> None:
    s3 = cloud.client("s3")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for _ in pool.map(lambda number: s3.put_object(Bucket=bucket, Key=f"p/{number}", Body=b"x"), range(100)):
            pass
    assert s3.list_objects_v2(Bucket=bucket, Prefix="p/")["KeyCount"] == 100
    assert (cloud.directory / "errors.log").read_text() == ""


def test_a_socket_on_loopback_is_needed(tmp_path: Path) -> None:
    with (
        Cloud(tmp_path) as cloud,
        listening("127.0.0.2") as other,
        pytest.raises(ValueError, match=r"none is bound to 127\.0\.0\.1"),
    ):
        cloud.start([other])


def test_stop_ends_everything(tmp_path: Path) -> None:
    front = listening()
    port = front.getsockname()[1]
    before = children()
    with Cloud(tmp_path) as cloud:
        cloud.start([front])
        cloud.client("s3").create_bucket(Bucket="left-behind")
        kept = http.client.HTTPSConnection("127.0.0.1", port, context=strict_context(cloud))
        kept.request("GET", "/")
        kept.getresponse().read()
        assert len(children() - before) == 1
    assert children() == before
    kept.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    # The next cloud of the process knows nothing of it.
    with Cloud(tmp_path / "next") as cloud:
        cloud.start([listening()])
        assert cloud.client("s3").list_buckets()["Buckets"] == []
        assert cloud.client("ssm").get_parameter(Name=DEBIAN_IMAGE_PARAMETER)["Parameter"]["Value"] == DEBIAN_IMAGE_ID


def test_operator_s_secrets_are_in_the_journal(cloud: Cloud) -> None:
    issued = {entry["value"]: entry for entry in journal(cloud.directory, "issued.jsonl")}
    secret = issued[cloud.operator.secret_access_key]
    assert secret == {
        "kind": "SecretAccessKey",
        "value": cloud.operator.secret_access_key,
        "principal": OPERATOR_ARN,
        "expires": None,
    }
    assert cloud.operator.access_key_id in issued


def children() -> set[int]:
    task = Path(f"/proc/self/task/{os.getpid()}/children")
    return {int(child) for child in task.read_text().split()}
