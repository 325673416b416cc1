"""ECR's registry: Docker's own registry (Debian's docker-registry) behind ECR's sign-in and permissions.

Layers are streamed both ways; only manifests are kept in memory, because ECR's API has to know of them.
"""

from __future__ import annotations

import base64
import binascii
import http.client
import io
import json
import re
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import yaml

from rehearsal.cloud import ACCOUNT, REGION, REGISTRY_HOST
from rehearsal.cloud.credentials import Credential
from rehearsal.cloud.errors import STATUS_PHRASES, ApiError
from rehearsal.cloud.faults import REGISTRY, Call
from rehearsal.cloud.iam import Action, denied_message
from rehearsal.cloud.requests import ApiRequest
from rehearsal.cloud.serving import answer
from rehearsal.cloud.world import World
from rehearsal.tools.system import ending_with_this_thread

if TYPE_CHECKING:
    from wsgiref.types import StartResponse

# https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_GetAuthorizationToken.html
TOKEN_LIFE = timedelta(hours=12)
BINARY = "docker-registry"
_BLOCK = 1 << 18
_START_TIMEOUT = 15.0
# Image manifests are limited to 4 MiB by the distribution specification's advice to registries.
_LONGEST_MANIFEST = 4 << 20
_PATH = re.compile(r"/v2/(?P<name>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)/(?P<kind>manifests|blobs|tags)/(?P<reference>[^?]+|)")
# Headers of one connection, which a proxy must not pass on (RFC 9110, 7.6.1), and what only the front has to
# know.
_NOT_PASSED_ON = frozenset({"authorization", "connection", "expect", "host", "keep-alive", "te", "transfer-encoding"})

# The IAM action behind each call of the registry's API.
# Source: https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-push-iam.html and the action
# descriptions at
# https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelasticcontainerregistry.html
_ACTIONS = {
    ("HEAD", "manifests"): "BatchGetImage",
    ("GET", "manifests"): "BatchGetImage",
    ("PUT", "manifests"): "PutImage",
    ("HEAD", "blobs"): "BatchCheckLayerAvailability",
    ("GET", "blobs"): "GetDownloadUrlForLayer",
    ("POST", "uploads"): "InitiateLayerUpload",
    ("GET", "uploads"): "UploadLayerPart",
    ("PATCH", "uploads"): "UploadLayerPart",
    ("DELETE", "uploads"): "UploadLayerPart",
    ("PUT", "uploads"): "CompleteLayerUpload",
    ("GET", "tags"): "ListImages",
}


class RegistryError(Exception):
    """The registry cannot be started; the message says why and what to do."""


@dataclass(frozen=True)
class RegistryCall:
    """How one call ended, for the request log."""

    action: str
    principal: str | None
    key_id: str | None


class Registry:
    """The registry process and the front for it.

    Args:
        directory: holds its configuration, its log and, under `data`, the images.
    """

    def __init__(self, directory: Path, world: World) -> None:
        self._directory = directory
        self._world = world
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process and wait until it answers.

        Raises:
            RegistryError: the program is not installed, or does not come up.
        """
        if shutil.which(BINARY) is None:
            raise RegistryError(
                f"{BINARY} is not installed; on Debian: apt-get install --no-install-recommends {BINARY}"
            )
        self._directory.mkdir(parents=True, exist_ok=True)
        self._port = _free_port()
        configuration = {
            "version": 0.1,
            "log": {"level": "warn"},
            "storage": {
                "filesystem": {"rootdirectory": str(self._directory / "data")},
                "delete": {"enabled": False},
            },
            "http": {
                "addr": f"127.0.0.1:{self._port}",
                # What the addresses in its answers begin with.
                "host": f"https://{REGISTRY_HOST}",
                "secret": secrets.token_hex(32),
            },
        }
        path = self._directory / "config.yml"
        path.write_text(yaml.safe_dump(configuration))
        path.chmod(0o600)
        with (self._directory / "registry.log").open("ab") as log:
            self._process = subprocess.Popen(
                ending_with_this_thread([BINARY, "serve", str(path)]),
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        self._wait()

    def stop(self) -> None:
        """Stop the registry's process and wait until it has ended; its images stay on disk."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def forget(self, repository: str) -> None:
        """Remove the images of a repository that ECR has deleted; a new one of its name begins empty."""
        shutil.rmtree(self._directory / "data/docker/registry/v2/repositories" / repository, ignore_errors=True)

    def get_authorization_token(self, world: World, _request: ApiRequest, credential: Credential) -> bytes:
        """Issue a password for the registry.

        Source: https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_GetAuthorizationToken.html
        """
        password, expires = world.keyring.issue_registry_token(credential, TOKEN_LIFE)
        data = {
            "authorizationToken": base64.b64encode(f"AWS:{password}".encode()).decode(),
            "expiresAt": expires.timestamp(),
            "proxyEndpoint": f"https://{REGISTRY_HOST}",
        }
        return json.dumps({"authorizationData": [data]}).encode()

    def __call__(
        self, environ: dict[str, Any], start: StartResponse
    ) -> tuple[Iterator[bytes] | list[bytes], RegistryCall]:
        """Answer one call of the registry's HTTP API."""
        asked = _PATH.fullmatch(environ["PATH_INFO"])
        method = environ["REQUEST_METHOD"]
        kind = "uploads" if asked and asked["reference"].startswith("uploads/") else asked["kind"] if asked else ""
        operation = _ACTIONS.get((method, kind), "")
        try:
            self._world.faults.meet(Call(REGISTRY, operation, environ["PATH_INFO"]))
        except ApiError as error:
            return _refuse(start, error.status, error.code, error.message), RegistryCall(f"ecr:{operation}", None, None)
        signed_in = self._sign_in(environ)
        if signed_in is None:
            headers = [("Www-Authenticate", f'Basic realm="https://{REGISTRY_HOST}/",service="ecr.amazonaws.com"')]
            return _refuse(start, 401, "UNAUTHORIZED", "Not Authorized", headers), RegistryCall("", None, None)
        credential, expires = signed_in
        key_id, principal = credential.access_key_id, credential.principal.arn
        call = RegistryCall("", principal, key_id)
        if datetime.now(UTC) >= expires:
            message = "Your authorization token has expired. Reauthenticate and try again."
            return _refuse(start, 403, "DENIED", message), call
        if environ["PATH_INFO"] in ("/v2", "/v2/"):
            return self._pass_on(environ, start, environ["wsgi.input"]), call
        if asked is None or not operation:
            return _refuse(start, 405, "UNSUPPORTED", "The operation is unsupported."), call
        call = RegistryCall(f"ecr:{operation}", principal, key_id)
        action = Action(call.action, f"arn:aws:ecr:{REGION}:{ACCOUNT}:repository/{asked['name']}")
        with self._world.backends.locked():
            secure = environ["wsgi.url_scheme"] == "https"
            decision = self._world.decide(credential, action, secure=secure)
            known = self._world.backends.repository(asked["name"]) is not None
        if not decision.allowed:
            return _refuse(start, 403, "DENIED", denied_message(principal, action, decision)), call
        if not known:
            where = f"the registry with id '{ACCOUNT}'"
            message = f"The repository with name '{asked['name']}' does not exist in {where}"
            return _refuse(start, 404, "NAME_UNKNOWN", message), call
        if operation == "PutImage":
            return self._put_manifest(environ, start, asked["name"], asked["reference"]), call
        return self._pass_on(environ, start, environ["wsgi.input"]), call

    def _sign_in(self, environ: dict[str, Any]) -> tuple[Credential, datetime] | None:
        scheme, _, encoded = environ.get("HTTP_AUTHORIZATION", "").partition(" ")
        try:
            user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        if scheme.lower() != "basic" or user != "AWS":
            return None
        return self._world.keyring.find_registry_token(password)

    def _put_manifest(
        self, environ: dict[str, Any], start: StartResponse, name: str, reference: str
    ) -> Iterator[bytes] | list[bytes]:
        """Store a manifest, and tell ECR's API of the image once the registry has taken it."""
        manifest = environ["wsgi.input"].read(_LONGEST_MANIFEST + 1)
        if len(manifest) > _LONGEST_MANIFEST:
            return _refuse(start, 400, "MANIFEST_INVALID", f"The manifest is longer than {_LONGEST_MANIFEST} bytes")
        environ["CONTENT_LENGTH"] = str(len(manifest))
        taken: list[str] = []

        def started(status: str, headers: list[tuple[str, str]], _exc_info: Any = None) -> Any:
            taken.extend(value for key, value in headers if key.lower() == "docker-content-digest")
            return start(status, headers)

        body = self._pass_on(environ, started, io.BytesIO(manifest))
        if taken:
            with self._world.backends.locked():
                self._world.backends.ecr().put_image(
                    repository_name=name,
                    image_manifest=manifest.decode(),
                    image_tag=None if ":" in reference else reference,
                    image_manifest_mediatype=environ.get("CONTENT_TYPE"),
                    digest=taken[0],
                )
        return body

    def _pass_on(self, environ: dict[str, Any], start: Any, body: IO[bytes]) -> Iterator[bytes]:
        """Pass a request on; its answer's body is read as it is sent."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=600)
        connection.putrequest(environ["REQUEST_METHOD"], environ["RAW_URI"], skip_host=True, skip_accept_encoding=True)
        connection.putheader("Host", REGISTRY_HOST)
        for key, value in environ.items():
            name = key[5:].replace("_", "-").lower() if key.startswith("HTTP_") else ""
            if name and name not in _NOT_PASSED_ON:
                connection.putheader(name, value)
        if "CONTENT_TYPE" in environ:
            connection.putheader("Content-Type", environ["CONTENT_TYPE"])
        length = environ.get("CONTENT_LENGTH")
        chunked = length is None and environ["REQUEST_METHOD"] in ("POST", "PUT", "PATCH")
        connection.putheader(*(("Transfer-Encoding", "chunked") if chunked else ("Content-Length", length or "0")))
        connection.endheaders(iter(lambda: body.read(_BLOCK), b""), encode_chunked=chunked)
        response = connection.getresponse()
        headers = [(name, value) for name, value in response.getheaders() if name.lower() not in _NOT_PASSED_ON]
        start(f"{response.status} {response.reason}", headers)
        return _blocks(connection, response)

    def _wait(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT
        while self._process is not None and self._process.poll() is None and time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", self._port), timeout=1):
                    return
            except OSError:
                time.sleep(0.02)
        self.stop()
        log = (self._directory / "registry.log").read_text(errors="replace")
        raise RegistryError(f"{BINARY} did not start on port {self._port}:\n{log[-2000:]}")


def _blocks(connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> Iterator[bytes]:
    try:
        while block := response.read(_BLOCK):
            yield block
    finally:
        connection.close()


def _refuse(
    start: StartResponse, status: int, code: str, message: str, headers: list[tuple[str, str]] | None = None
) -> list[bytes]:
    """Answer with an error of the registry's API.

    Source: https://distribution.github.io/distribution/spec/api/#errors
    """
    body = json.dumps({"errors": [{"code": code, "message": message}]}).encode()
    extra = [("Docker-Distribution-Api-Version", "registry/2.0"), *(headers or [])]
    return answer(start, f"{status} {STATUS_PHRASES[status]}", "application/json; charset=utf-8", body, extra)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
