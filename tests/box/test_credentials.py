"""The credential service over real HTTP, against moto's STS."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from types_boto3_sts import STSClient

from buildspec.box import credentials
from buildspec.box.credentials import CacheRole, CredentialServer
from tests.box.support import ROLE, SESSION_POLICY, box_config, reset_auth, user

TOKEN = "0123456789abcdef"


class RecordedSts:
    """A real STS client of which every AssumeRole request is kept."""

    def __init__(self) -> None:
        self.client: STSClient = boto3.client("sts", region_name="us-east-1")
        self.requests: list[dict[str, Any]] = []
        self.client.meta.events.register("provide-client-params.sts.AssumeRole", self._keep)

    def _keep(self, params: dict[str, Any], **_: Any) -> None:
        self.requests.append(dict(params))


@pytest.fixture
def sts(aws: str) -> RecordedSts:  # noqa: ARG001  # fixtures take no usefixtures
    return RecordedSts()


@contextmanager
def serving(role: CacheRole, token_file: Path) -> Iterator[tuple[str, int]]:
    listening = socket.create_server(("127.0.0.1", 0))
    with CredentialServer(listening, credentials.token_from(token_file), role) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield listening.getsockname()
        server.shutdown()
        thread.join()


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    return path


@pytest.fixture
def address(sts: RecordedSts, token_file: Path) -> Iterator[tuple[str, int]]:
    with serving(CacheRole(sts.client, box_config(), "dev-i-1"), token_file) as bound:
        yield bound


def ask(
    address: tuple[str, int], token: str | None = TOKEN, path: str = "/credentials", method: str = "GET"
) -> tuple[int, dict[str, str]]:
    connection = http.client.HTTPConnection(*address, timeout=60)
    connection.request(method, path, headers={} if token is None else {"Authorization": token})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, json.loads(body) if answer.headers["Content-Type"] == "application/json" else {}


def test_hands_out_a_narrowed_session_of_fifteen_minutes(address: tuple[str, int], sts: RecordedSts) -> None:
    status, vended = ask(address)
    assert status == 200
    assert set(vended) == {"AccessKeyId", "SecretAccessKey", "Token", "Expiration"}
    assert all(vended.values())
    [request] = sts.requests
    assert json.loads(request.pop("Policy")) == SESSION_POLICY
    assert request == {"RoleArn": ROLE, "RoleSessionName": "dev-i-1", "DurationSeconds": 900}
    left = datetime.strptime(vended["Expiration"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC) - datetime.now(UTC)
    assert timedelta(minutes=14) < left <= timedelta(minutes=15)


def test_what_was_vended_works(address: tuple[str, int]) -> None:
    _, vended = ask(address)
    caller = boto3.client(
        "sts",
        region_name="us-east-1",
        aws_access_key_id=vended["AccessKeyId"],
        aws_secret_access_key=vended["SecretAccessKey"],
        aws_session_token=vended["Token"],
    ).get_caller_identity()
    assert caller["Arn"] == "arn:aws:sts::123456789012:assumed-role/rocm-build-box-prod-cache/dev-i-1"


@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN + "0", TOKEN[:-1], f"Bearer {TOKEN}", "\xe9"])
def test_refuses_without_the_token(address: tuple[str, int], sts: RecordedSts, token: str | None) -> None:
    status, body = ask(address, token)
    assert (status, body["code"]) == (401, "Unauthorized")
    assert sts.requests == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/credentials/", 404),
        ("GET", "/credentials?x", 404),
        ("POST", "/credentials", 501),
        ("PUT", "/credentials", 501),
        ("HEAD", "/credentials", 501),
    ],
)
def test_there_is_nothing_else(address: tuple[str, int], sts: RecordedSts, method: str, path: str, status: int) -> None:
    assert ask(address, path=path, method=method)[0] == status
    assert sts.requests == []


def test_one_set_is_kept_and_renewed_when_less_than_five_minutes_are_left(sts: RecordedSts) -> None:
    role = CacheRole(sts.client, box_config(), "dev-i-1")
    first = role.credentials()
    assert role.credentials() is first
    # The real clock cannot be waited for; the set's end is moved instead.
    first["Expiration"] = datetime.now(UTC) + timedelta(minutes=5, seconds=10)
    assert role.credentials() is first
    first["Expiration"] = datetime.now(UTC) + timedelta(minutes=4, seconds=59)
    second = role.credentials()
    assert second["AccessKeyId"] != first["AccessKeyId"]
    assert len(sts.requests) == 2


def test_many_at_once_share_one_set(address: tuple[str, int], sts: RecordedSts) -> None:
    answers: list[tuple[int, dict[str, str]]] = []
    threads = [threading.Thread(target=lambda: answers.append(ask(address))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [status for status, _ in answers] == [200] * 20
    assert len({body["AccessKeyId"] for _, body in answers}) == 1
    assert len(sts.requests) == 1


def test_a_silent_client_does_not_keep_the_others_waiting(address: tuple[str, int]) -> None:
    with socket.create_connection(address):
        assert ask(address)[0] == 200


def test_the_token_may_change_while_the_service_runs(address: tuple[str, int], token_file: Path) -> None:
    token_file.write_text("another\n")
    assert ask(address)[0] == 401
    assert ask(address, "another")[0] == 200


@pytest.mark.parametrize(("content", "status"), [(None, 503), ("", 401), ("\n", 401)])
def test_no_token_file_opens_nothing(
    address: tuple[str, int], token_file: Path, content: str | None, status: int
) -> None:
    token_file.unlink()
    if content is not None:
        token_file.write_text(content)
    assert ask(address, "")[0] == status


def test_a_refusal_of_sts_is_passed_on(enforcing: str, token_file: Path) -> None:
    keys = user("nobody", {"s3:GetObject": "*"})
    reset_auth(enforcing, "0")
    sts = boto3.client("sts", region_name="us-east-1", **keys)
    with serving(CacheRole(sts, box_config(), "dev-i-1"), token_file) as bound:
        status, body = ask(bound)
    assert (status, body["code"]) == (502, "AccessDenied")
    assert body["message"].startswith("AssumeRole: User: arn:aws:iam::123456789012:user/nobody is not authorized")


@pytest.mark.usefixtures("aws")
def test_sts_out_of_reach_is_told(token_file: Path) -> None:
    sts = boto3.client("sts", region_name="us-east-1", endpoint_url="http://127.0.0.1:9")
    with serving(CacheRole(sts, box_config(), "dev-i-1"), token_file) as bound:
        status, body = ask(bound)
    assert (status, body["code"]) == (502, "EndpointConnectionError")


def test_log_has_no_secret(address: tuple[str, int], capfd: pytest.CaptureFixture[str]) -> None:
    _, vended = ask(address)
    ask(address, "wrong-token")
    logged = "".join(capfd.readouterr())
    assert "GET /credentials" in logged
    assert "Unauthorized" in logged
    for secret in (TOKEN, "wrong-token", vended["SecretAccessKey"], vended["Token"], vended["AccessKeyId"]):
        assert secret not in logged


@pytest.mark.usefixtures("aws", "places")
def test_takes_its_socket_from_systemd() -> None:
    """As a process of its own, with the socket as file descriptor 3, as systemd starts it."""
    from buildspec.box import config as box

    box.TOKEN_FILE.write_text(TOKEN)
    listening = socket.create_server(("127.0.0.1", 0))
    start = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from buildspec.box import config as box, credentials\n"
        "for name in ('CONFIG_FILE', 'TOKEN_FILE', 'INSTANCE_ID_FILE'):\n"
        "    setattr(box, name, Path(os.environ[name]))\n"
        "os.environ['LISTEN_PID'] = str(os.getpid())\n"
        f"os.dup2({listening.fileno()}, 3)\n"
        "sys.exit(credentials.main())\n"
    )
    files = {name: str(getattr(box, name)) for name in ("CONFIG_FILE", "TOKEN_FILE", "INSTANCE_ID_FILE")}
    process = subprocess.Popen(
        [sys.executable, "-c", start],
        env={**os.environ, **files, "LISTEN_FDS": "1"},
        pass_fds=[listening.fileno()],
        stderr=subprocess.DEVNULL,
    )
    try:
        status, vended = ask(listening.getsockname())
        assert (status, len(vended)) == (200, 4)
    finally:
        process.terminate()
        process.wait()
        listening.close()


def test_is_not_started_without_its_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTEN_FDS", "1")
    monkeypatch.setenv("LISTEN_PID", "1")
    with pytest.raises(RuntimeError, match=r"start rocm-build-credentials\.socket"):
        credentials.passed_socket()
