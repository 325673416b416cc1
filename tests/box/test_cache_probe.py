"""The cache probe, against moto's S3 with its own enforcement of IAM policies."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import ClientError
from types_boto3_s3 import S3Client

from buildspec.box import cache_probe, credentials
from buildspec.box import config as box
from buildspec.box.cache_probe import Patience, ProbeError
from tests.box.support import BUCKET, INSTANCE, box_config, policy, reset_auth, user

BUCKET_ACTION = {"s3:ListBucket": f"arn:aws:s3:::{BUCKET}"}
OBJECT_ACTIONS = dict.fromkeys(("s3:GetObject", "s3:PutObject"), f"arn:aws:s3:::{BUCKET}/rocm-pytorch/*")
ACTIONS = {**BUCKET_ACTION, **OBJECT_ACTIONS}


def no_patience() -> Patience:
    return Patience(seconds=0.0)


def enforce(endpoint: str, allowed: dict[str, str]) -> S3Client:
    """The client of a user who may do only what is named; moto enforces that from now on."""
    keys = user("builder", allowed)
    reset_auth(endpoint, "0")
    return boto3.client("s3", region_name="us-east-1", **keys)


def test_all_four_actions_are_tried(enforcing: str) -> None:
    s3 = enforce(enforcing, ACTIONS)
    assert cache_probe.probe(s3, BUCKET, "rocm-pytorch", "dev-i-1", no_patience()) == [
        f"allowed: s3:PutObject on arn:aws:s3:::{BUCKET}/rocm-pytorch/*",
        f"allowed: s3:GetObject on arn:aws:s3:::{BUCKET}/rocm-pytorch/*",
        f"allowed: s3:ListBucket on arn:aws:s3:::{BUCKET}",
        f"allowed: s3:ListBucket on arn:aws:s3:::{BUCKET} (a missing key is 404)",
    ]


@pytest.mark.parametrize("missing", sorted(ACTIONS))
def test_missing_action_is_named(enforcing: str, missing: str) -> None:
    s3 = enforce(enforcing, {action: where for action, where in ACTIONS.items() if action != missing})
    with pytest.raises(ProbeError, match=f"does not allow {missing} on {ACTIONS[missing].replace('*', '.')}") as raised:
        cache_probe.probe(s3, BUCKET, "rocm-pytorch", "dev-i-1", no_patience())
    assert "add it to the cache role's policy" in str(raised.value)


def test_policy_for_another_prefix_is_no_policy(enforcing: str) -> None:
    s3 = enforce(enforcing, ACTIONS)
    with pytest.raises(ProbeError, match="does not allow s3:PutObject"):
        cache_probe.probe(s3, BUCKET, "somewhere-else", "dev-i-1", no_patience())


@pytest.mark.usefixtures("aws")
def test_refusal_of_a_missing_key_names_list_bucket() -> None:
    """S3 refuses where moto says 404: the bucket is right in all but the last question."""
    s3 = boto3.client("s3", region_name="us-east-1")

    def turn_404_into_403(parsed: dict[str, dict[str, str]], **_: object) -> None:
        if parsed.get("Error", {}).get("Code") == "NoSuchKey":
            parsed["Error"]["Code"] = "AccessDenied"

    s3.meta.events.register("after-call.s3.GetObject", turn_404_into_403)
    with pytest.raises(ProbeError, match=r"does not allow s3:ListBucket on .*\(a missing key is 404\)"):
        cache_probe.probe(s3, BUCKET, "rocm-pytorch", "dev-i-1", no_patience())


def test_refusal_is_waited_out_for_a_while(enforcing: str) -> None:
    """The policy arrives half a second late, as IAM's do."""
    admin = user("admin", {"iam:*": "*"})
    s3 = enforce(enforcing, {"s3:PutObject": "arn:aws:s3:::another-bucket/*"})
    iam = boto3.client("iam", region_name="us-east-1", **admin)
    late = threading.Timer(
        0.5,
        lambda: iam.put_user_policy(UserName="builder", PolicyName="cache", PolicyDocument=policy(ACTIONS)),
    )
    began = time.monotonic()
    late.start()
    lines = cache_probe.probe(s3, BUCKET, "rocm-pytorch", "r", Patience(seconds=20.0, pause=0.2))
    assert len(lines) == 4
    assert time.monotonic() - began >= 0.5


@pytest.mark.usefixtures("aws")
def test_other_errors_are_not_waited_for() -> None:
    s3 = boto3.client("s3", region_name="us-east-1")
    with pytest.raises(ProbeError, match=r"s3:PutObject on arn:aws:s3:::none/p/\*: S3 answers .*NoSuchBucket"):
        cache_probe.probe(s3, "none", "p", "r", Patience(seconds=1000.0, pause=1000.0))


@pytest.mark.usefixtures("aws")
def test_bucket_out_of_reach() -> None:
    s3 = boto3.client("s3", region_name="us-east-1", endpoint_url="http://127.0.0.1:9")
    with pytest.raises(ProbeError, match="S3 was not reached"):
        cache_probe.probe(s3, BUCKET, "p", "r", no_patience())


@pytest.fixture
def service(aws: str, places: Path) -> Iterator[str]:  # noqa: ARG001  # fixtures take no usefixtures
    """A running credential service, and the secret file that names it."""
    listening = socket.create_server(("127.0.0.1", 0))
    uri = "http://{}:{}/credentials".format(*listening.getsockname())
    box.TOKEN_FILE.write_text("5ec3e7")
    box.SECRET_FILE.write_text(f"AWS_CONTAINER_CREDENTIALS_FULL_URI={uri}\nAWS_CONTAINER_AUTHORIZATION_TOKEN=5ec3e7\n")
    role = credentials.CacheRole(boto3.client("sts", region_name="us-east-1"), box_config(), "dev-i-1")
    with credentials.CredentialServer(listening, credentials.token_from(box.TOKEN_FILE), role) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield uri
        server.shutdown()
        thread.join()


@pytest.mark.usefixtures("service")
def test_whole_probe_uses_what_the_service_vends(capfd: pytest.CaptureFixture[str]) -> None:
    assert cache_probe.main() == 0
    output = capfd.readouterr()
    assert output.out.count("cache probe: allowed: ") == 4
    assert "5ec3e7" not in output.out + output.err
    listed = boto3.client("s3", region_name="us-east-1").list_objects_v2(Bucket=BUCKET)["Contents"]
    assert [entry["Key"] for entry in listed] == [f"rocm-pytorch/.rocm-build-probe/dev-{INSTANCE}"]


def test_a_wrong_clock_is_told_at_once(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: credentials.CacheRole) -> None:
        raise ClientError({"Error": {"Code": "SignatureDoesNotMatch", "Message": "Signature expired: "}}, "AssumeRole")

    monkeypatch.setattr(credentials.CacheRole, "credentials", refuse)
    with pytest.raises(ProbeError, match=r"gave no credentials: 502 .*Signature expired"):
        cache_probe.fetch_credentials(service, "5ec3e7", Patience(seconds=1000.0, pause=1000.0))


@pytest.mark.usefixtures("service")
@pytest.mark.parametrize(("required", "exit_code"), [("1", 1), ("", 1), ("0", 0)])
def test_a_store_that_is_down(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], required: str, exit_code: int
) -> None:
    monkeypatch.setenv("REQUIRE_SCCACHE", required)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    assert cache_probe.main() == exit_code
    output = capfd.readouterr().out
    assert "S3 was not reached" in output
    assert ("as REQUIRE_SCCACHE=0 allows" in output) == (exit_code == 0)


def test_wrong_token_is_told_at_once(service: str) -> None:
    with pytest.raises(ProbeError, match=r"gave no credentials: 401 .*Unauthorized") as raised:
        cache_probe.fetch_credentials(service, "other", Patience(seconds=1000.0, pause=1000.0))
    assert "other" not in str(raised.value)


@pytest.mark.usefixtures("places")
def test_no_service_is_told() -> None:
    with pytest.raises(ProbeError, match=r"gave no credentials: .*refused"):
        cache_probe.fetch_credentials("http://127.0.0.1:9/credentials", "t", Patience(seconds=0.3, pause=0.1))
