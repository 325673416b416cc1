"""Faults on demand: what a client sees, for how long, and that it is over afterwards."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ConnectionClosedError

from rehearsal.cloud import REGISTRY_HOST, faults, serving
from rehearsal.cloud.errors import ApiError
from rehearsal.cloud.server import Cloud
from tests.rehearsal.conftest import client, error_of, journal, listening

RATE = "Rate exceeded"
UNKNOWN = "The request processing has failed because of an unknown error, exception or failure."


@pytest.mark.parametrize(
    ("service", "call", "throttled", "failed"),
    [
        (
            "s3",
            "list_buckets",
            (503, "SlowDown", "Please reduce your request rate."),
            (500, "InternalError", "We encountered an internal error. Please try again."),
        ),
        (
            "ec2",
            "describe_instances",
            (503, "RequestLimitExceeded", "Request limit exceeded."),
            (500, "InternalError", "An internal error has occurred"),
        ),
        ("sts", "get_caller_identity", (400, "Throttling", RATE), (500, "InternalFailure", UNKNOWN)),
        ("iam", "list_roles", (400, "Throttling", RATE), (500, "InternalFailure", UNKNOWN)),
        ("logs", "describe_log_groups", (400, "ThrottlingException", RATE), (500, "InternalFailure", UNKNOWN)),
        ("ssm", "describe_parameters", (400, "ThrottlingException", RATE), (500, "InternalFailure", UNKNOWN)),
        ("ecr", "describe_repositories", (400, "ThrottlingException", RATE), (500, "InternalFailure", UNKNOWN)),
    ],
)
def test_each_service_s_words(
    cloud: Cloud, service: str, call: str, throttled: tuple[int, str, str], failed: tuple[int, str, str]
) -> None:
    ask = getattr(client(cloud, service), call)
    with cloud.faults.throttle(service):
        assert error_of(ask) == throttled
    with cloud.faults.fail(service):
        assert error_of(ask) == failed
    ask()


def test_a_client_that_tries_again_gets_through(cloud: Cloud) -> None:
    with cloud.faults.throttle("sts", times=2) as fault:
        client(cloud, "sts", attempts=3).get_caller_identity()
    assert fault.met == 2


def test_operation_and_path(cloud: Cloud, bucket: str) -> None:
    s3 = client(cloud, "s3")
    with cloud.faults.fail("s3", "PutObject", path=f"/{bucket}/cache/*") as fault:
        assert error_of(lambda: s3.put_object(Bucket=bucket, Key="cache/new", Body=b""))[0] == 500
        s3.put_object(Bucket=bucket, Key="elsewhere", Body=b"")
        s3.get_object(Bucket=bucket, Key="cache/known")
        client(cloud, "sts").get_caller_identity()
    assert fault.met == 1
    s3.put_object(Bucket=bucket, Key="cache/new", Body=b"")


def test_any_error(cloud: Cloud, bucket: str) -> None:
    refusal = ApiError(403, "AccessDenied", "Access Denied")
    with cloud.faults.refuse(refusal, "s3", "GetObject"):
        s3 = client(cloud, "s3")
        refused = error_of(lambda: s3.get_object(Bucket=bucket, Key="cache/known"))
    assert refused == (403, "AccessDenied", "Access Denied")


def test_slow(cloud: Cloud) -> None:
    """A slow answer holds up nobody else."""
    held, quick = client(cloud, "sts"), client(cloud, "sts")
    with cloud.faults.slow(5, "sts", times=1) as fault:
        slow = threading.Thread(target=held.get_caller_identity)
        slow.start()
        while not fault.met:
            time.sleep(0.01)
        quick.get_caller_identity()
        assert slow.is_alive()
        slow.join()


def test_unreachable_for_a_while(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(faults, "time", SimpleNamespace(monotonic=lambda: now[0]))
    ask = client(cloud, "sts").get_caller_identity
    cloud.faults.unreachable("sts", lasting=1)
    with pytest.raises(ConnectionClosedError):
        ask()
    entry = journal(cloud.directory, "requests.jsonl")[-1]
    assert (entry["action"], entry["status"]) == ("sts:GetCallerIdentity", None)
    now[0] = 1.0
    ask()


def test_registry(cloud: Cloud) -> None:
    token = client(cloud, "ecr").get_authorization_token()["authorizationData"][0]["authorizationToken"]
    assert base64.b64decode(token).startswith(b"AWS:")

    def ask(path: str) -> tuple[int, Any]:
        context = ssl.create_default_context(cafile=str(cloud.ca_certificate))
        connection = http.client.HTTPSConnection(cloud.endpoint.removeprefix("https://"), context=context)
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Host": REGISTRY_HOST, "Authorization": f"Basic {token}"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"{}")

    with cloud.faults.fail("registry", path="*/manifests/broken"):
        assert ask("/v2/images/manifests/broken") == (
            500,
            {"errors": [{"code": "UNKNOWN", "message": "unknown error"}]},
        )
        assert ask("/v2/")[0] == 200
    with cloud.faults.throttle("registry", "ListImages"):
        assert ask("/v2/images/tags/list") == (
            429,
            {"errors": [{"code": "TOOMANYREQUESTS", "message": "Rate exceeded"}]},
        )
    with cloud.faults.unreachable("registry"), pytest.raises(ConnectionError):
        ask("/v2/")
    assert ask("/v2/")[0] == 200


def test_a_cloud_stops_in_the_middle_of_a_slow_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # It has to end the answer, rather than lose patience with it.
    monkeypatch.setattr(serving, "CLOSING_TIMEOUT", 60)
    before = set(threading.enumerate())
    with Cloud(tmp_path) as cloud:
        cloud.start([listening()])
        fault = cloud.faults.slow(3600, "sts")
        sts = client(cloud, "sts")

        def ask() -> None:
            # The waiting ends with the cloud; the answer may still come through, or the connection's end.
            with contextlib.suppress(BotoCoreError):
                sts.get_caller_identity()

        asking = threading.Thread(target=ask)
        asking.start()
        while not fault.met:
            time.sleep(0.01)
        serving_it = set(threading.enumerate()) - before - {asking}
    asking.join()
    assert serving_it
    assert [thread for thread in serving_it if thread.is_alive()] == []
