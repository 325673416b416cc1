"""The credential service: hands out short-lived credentials of the cache role, and nothing else.

It speaks the container-credentials protocol
(https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html): ``GET /credentials``
with the token in ``Authorization`` answers AccessKeyId, SecretAccessKey, Token and Expiration. sccache asks
again when its credentials have less than two minutes left, so a build may be longer than any one set lasts.

systemd holds the listening socket and passes it as file descriptor 3; the service itself needs no right to
listen.
"""

from __future__ import annotations

import hmac
import json
import os
import socket
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from buildspec.box import config as box
from buildspec.box.config import BoxConfig

if TYPE_CHECKING:
    from types_boto3_sts import STSClient
    from types_boto3_sts.type_defs import CredentialsTypeDef

LISTEN_FDS_START = 3
"""SD_LISTEN_FDS_START of sd_listen_fds(3)."""

DURATION = timedelta(minutes=15)
"""How long one set lasts: the least that AssumeRole gives, so that a stolen set is soon worthless."""

RENEW_BEFORE = timedelta(minutes=5)
"""A set with less left is handed out no more. Above sccache's two minutes, or it would ask in a circle."""

REQUEST_SECONDS = 10.0
"""A client that says nothing for so long is cut off."""


class CacheRole:
    """Assumes the cache role from the box's own role and keeps one set of credentials."""

    def __init__(self, sts: STSClient, config: BoxConfig, session_name: str) -> None:
        self._sts = sts
        self._config = config
        self._session_name = session_name
        self._lock = threading.Lock()
        self._current: CredentialsTypeDef | None = None

    def credentials(self) -> CredentialsTypeDef:
        """Return a set with at least :data:`RENEW_BEFORE` left.

        Raises:
            botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError: STS was not reached, or
            refused.
        """
        with self._lock:
            if self._current is None or self._current["Expiration"] - datetime.now(UTC) < RENEW_BEFORE:
                self._current = self._sts.assume_role(
                    RoleArn=self._config.cache_role_arn,
                    RoleSessionName=self._session_name,
                    DurationSeconds=int(DURATION.total_seconds()),
                    Policy=json.dumps(self._config.session_policy, sort_keys=True, separators=(",", ":")),
                )["Credentials"]
            return self._current


class CredentialServer(ThreadingHTTPServer):
    """Serves one cache role on a socket that is listening already."""

    daemon_threads = True

    def __init__(self, listening: socket.socket, token: Callable[[], str], role: CacheRole) -> None:
        """``token`` is asked at every request: the token changes with every start of the build's unit."""
        # server_bind(), left out with the binding, would look the address up in the DNS and may hang there.
        super().__init__(listening.getsockname()[:2], CredentialHandler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.server_name, self.server_port = listening.getsockname()[:2]
        self.token = token
        self.role = role


class CredentialHandler(BaseHTTPRequestHandler):
    """Answers one request. The log has the request line and the status, never a header or a body."""

    server: CredentialServer
    timeout = REQUEST_SECONDS

    def do_GET(self) -> None:
        """Answers ``/credentials``; everything else does not exist, whoever asks."""
        if self.path != "/credentials":
            return self._error(HTTPStatus.NOT_FOUND, "NotFound", "only /credentials exists here")
        try:
            expected = self.server.token()
        except OSError as error:
            return self._error(HTTPStatus.SERVICE_UNAVAILABLE, "NoBuild", f"no build is running: {error.strerror}")
        given = self.headers.get("Authorization", "")
        # Bytes, because compare_digest refuses texts that are not ASCII.
        if not expected or not hmac.compare_digest(given.encode(), expected.encode()):
            return self._error(HTTPStatus.UNAUTHORIZED, "Unauthorized", "the Authorization header is missing or wrong")
        try:
            credentials = self.server.role.credentials()
        except ClientError as error:
            details = error.response["Error"]
            return self._error(HTTPStatus.BAD_GATEWAY, details["Code"], f"AssumeRole: {details['Message']}")
        except BotoCoreError as error:
            return self._error(HTTPStatus.BAD_GATEWAY, type(error).__name__, f"AssumeRole: {error}")
        return self._answer(
            HTTPStatus.OK,
            {
                "AccessKeyId": credentials["AccessKeyId"],
                "SecretAccessKey": credentials["SecretAccessKey"],
                "Token": credentials["SessionToken"],
                "Expiration": credentials["Expiration"].astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            },
        )

    def _error(self, http_status: HTTPStatus, code: str, message: str) -> None:
        self.log_error("%s: %s", code, message)
        self._answer(http_status, {"code": code, "message": message})

    def _answer(self, http_status: HTTPStatus, document: dict[str, str]) -> None:
        body = json.dumps(document).encode()
        self.send_response(http_status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)


def token_from(path: Path) -> Callable[[], str]:
    """Return a reader of the token's file."""
    return lambda: path.read_text(encoding="utf-8").strip()


def passed_socket() -> socket.socket:
    """Return the socket that systemd passed.

    Raises:
        RuntimeError: started in another way than by the socket unit.
    """
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS") != "1":
        raise RuntimeError("no socket was passed; start rocm-build-credentials.socket, not this service")
    return socket.socket(fileno=LISTEN_FDS_START)


def main() -> int:
    """Serve until systemd ends it."""
    config, instance = BoxConfig.load(box.CONFIG_FILE), box.instance_id(box.INSTANCE_ID_FILE)
    sts = boto3.client("sts", region_name=config.region, config=Config(retries={"mode": "standard", "max_attempts": 5}))
    # From the right: the instance id, which makes the session's name unique, stays whole.
    role = CacheRole(sts, config, config.run_id(instance)[-box.SESSION_NAME_LENGTH :])
    with CredentialServer(passed_socket(), token_from(box.TOKEN_FILE), role) as server:
        server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
