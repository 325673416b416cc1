"""ECR's registry: signing in, permissions, and layers that stream through to a real registry."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import resource
import secrets
import ssl
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest

from rehearsal.cloud import ACCOUNT, REGISTRY_HOST
from rehearsal.cloud.credentials import Credential
from rehearsal.cloud.registry import BINARY, Registry, RegistryError
from rehearsal.cloud.server import Cloud
from tests.rehearsal.conftest import allow, assume, document, journal, make_role

# The registry's program comes with what a booted box needs.
pytestmark = pytest.mark.usefixtures("rootfs")

PUSH = (
    "ecr:BatchCheckLayerAvailability",
    "ecr:InitiateLayerUpload",
    "ecr:UploadLayerPart",
    "ecr:CompleteLayerUpload",
    "ecr:PutImage",
)
PULL = ("ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
Headers = dict[str, str]


class Client:
    """What docker does, by hand: one connection to the registry's host name, kept until the test's end."""

    opened: ClassVar[list[http.client.HTTPSConnection]] = []

    def __init__(self, cloud: Cloud, authorization: str | None) -> None:
        context = ssl.create_default_context(cafile=str(cloud.ca_certificate))
        self._connection = http.client.HTTPSConnection(cloud.endpoint.removeprefix("https://"), context=context)
        self.opened.append(self._connection)
        self._headers = {"Host": REGISTRY_HOST}
        if authorization:
            self._headers["Authorization"] = authorization

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Headers, bytes]:
        sent = {**self._headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        self._connection.request(method, path, body=body, headers=sent, encode_chunked=hasattr(body, "__next__"))
        answer = self._connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()

    def push_blob(self, repository: str, content: bytes) -> tuple[int, bytes]:
        status, headers, body = self.ask("POST", f"/v2/{repository}/blobs/uploads/")
        if status != 202:
            return status, body
        location = headers["Location"]
        assert location.startswith(f"https://{REGISTRY_HOST}/v2/{repository}/blobs/uploads/")
        path = location.removeprefix(f"https://{REGISTRY_HOST}")
        status, headers, body = self.ask("PATCH", path, iter([content]), Transfer_Encoding="chunked")
        if status != 202:
            return status, body
        path = headers["Location"].removeprefix(f"https://{REGISTRY_HOST}")
        status, headers, body = self.ask("PUT", f"{path}&digest={digest(content)}")
        return status, body


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def manifest(config: bytes, layer: bytes) -> bytes:
    return json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPE,
            "config": {
                "mediaType": "application/vnd.oci.image.config.v1+json",
                "digest": digest(config),
                "size": len(config),
            },
            "layers": [
                {
                    "mediaType": "application/vnd.oci.image.layer.v1.tar",
                    "digest": digest(layer),
                    "size": len(layer),
                }
            ],
        }
    ).encode()


def sign_in(cloud: Cloud, credential: Credential | None = None) -> Client:
    data = cloud.client("ecr", credential).get_authorization_token()["authorizationData"][0]
    assert data["proxyEndpoint"] == f"https://{REGISTRY_HOST}"
    return Client(cloud, f"Basic {data['authorizationToken']}")


@pytest.fixture(autouse=True)
def connections() -> Iterator[None]:
    yield
    while Client.opened:
        Client.opened.pop().close()


@pytest.fixture
def repository(cloud: Cloud) -> str:
    name = f"box/{secrets.token_hex(4)}"
    cloud.client("ecr").create_repository(repositoryName=name)
    return name


def test_without_signing_in(cloud: Cloud, repository: str) -> None:
    guess = base64.b64encode(f"AWS:{ACCOUNT}-auth-token".encode()).decode()
    for authorization in (None, "Bearer token", "Basic !", f"Basic {guess}"):
        for path in ("/v2/", f"/v2/{repository}/tags/list", "/v2/none/tags/list"):
            status, headers, _ = Client(cloud, authorization).ask("GET", path)
            assert status == 401
            assert headers["Www-Authenticate"] == f'Basic realm="https://{REGISTRY_HOST}/",service="ecr.amazonaws.com"'


def test_push_and_pull(cloud: Cloud, repository: str) -> None:
    client = sign_in(cloud)
    assert client.ask("GET", "/v2/")[0] == 200
    config, layer = b"{}", secrets.token_bytes(1000)
    for blob in (config, layer):
        assert client.push_blob(repository, blob)[0] == 201
    content = manifest(config, layer)
    status, headers, _ = client.ask("PUT", f"/v2/{repository}/manifests/one", content, Content_Type=MANIFEST_TYPE)
    assert (status, headers["Docker-Content-Digest"]) == (201, digest(content))
    status, headers, body = client.ask("GET", f"/v2/{repository}/manifests/one", Accept=MANIFEST_TYPE)
    assert (status, headers["Content-Type"], body) == (200, MANIFEST_TYPE, content)
    assert client.ask("GET", f"/v2/{repository}/blobs/{digest(layer)}")[2] == layer
    status, headers, body = client.ask("HEAD", f"/v2/{repository}/blobs/{digest(layer)}")
    assert (status, headers["Content-Length"], body) == (200, "1000", b"")
    assert json.loads(client.ask("GET", f"/v2/{repository}/tags/list")[2])["tags"] == ["one"]
    images = cloud.client("ecr").describe_images(repositoryName=repository)["imageDetails"]
    assert [(image["imageDigest"], image["imageTags"]) for image in images] == [(digest(content), ["one"])]


def test_repository_that_does_not_exist(cloud: Cloud) -> None:
    status, body = sign_in(cloud).push_blob("box/none", b"{}")
    assert status == 404
    assert json.loads(body)["errors"] == [
        {
            "code": "NAME_UNKNOWN",
            "message": f"The repository with name 'box/none' does not exist in the registry with id '{ACCOUNT}'",
        }
    ]


def test_what_ecr_does_not_offer(cloud: Cloud, repository: str) -> None:
    client = sign_in(cloud)
    for method, path in (("GET", "/v2/_catalog"), ("DELETE", f"/v2/{repository}/manifests/one")):
        status, _, body = client.ask(method, path)
        assert (status, json.loads(body)["errors"][0]["code"]) == (405, "UNSUPPORTED")


@pytest.mark.parametrize("without", [*PUSH, *PULL])
def test_role_less_one_action(cloud: Cloud, repository: str, without: str) -> None:
    operator = sign_in(cloud)
    config, layer = b"{}", secrets.token_bytes(100)
    for blob in (config, layer):
        operator.push_blob(repository, blob)
    content = manifest(config, layer)
    operator.ask("PUT", f"/v2/{repository}/manifests/one", content, Content_Type=MANIFEST_TYPE)

    arn = f"arn:aws:ecr:us-east-1:{ACCOUNT}:repository/{repository}"
    actions = [action for action in (*PUSH, *PULL) if action != without]
    policy = document(allow(["ecr:GetAuthorizationToken"], "*"), allow(actions, arn))
    session = assume(cloud, make_role(cloud, policy=policy))
    client = sign_in(cloud, session)
    upload = ("ecr:InitiateLayerUpload", "ecr:UploadLayerPart", "ecr:CompleteLayerUpload")
    answers = {
        upload: client.push_blob(repository, secrets.token_bytes(10)),
        "ecr:PutImage": client.ask("PUT", f"/v2/{repository}/manifests/two", content, Content_Type=MANIFEST_TYPE)[::2],
        "ecr:BatchGetImage": client.ask("GET", f"/v2/{repository}/manifests/one", Accept=MANIFEST_TYPE)[::2],
        "ecr:GetDownloadUrlForLayer": client.ask("GET", f"/v2/{repository}/blobs/{digest(layer)}")[::2],
        "ecr:BatchCheckLayerAvailability": client.ask("HEAD", f"/v2/{repository}/blobs/{digest(layer)}")[::2],
    }
    for action, (status, body) in answers.items():
        if without in action:
            assert status == 403
            if body:
                assert json.loads(body)["errors"] == [
                    {
                        "code": "DENIED",
                        "message": f"User: {session.principal.arn} is not authorized to perform: "
                        f"{without} on resource: {arn} "
                        f"because no identity-based policy allows the {without} action",
                    }
                ]
        else:
            assert status in (200, 201), action


def test_token_ends(cloud: Cloud, repository: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rehearsal.cloud.registry.TOKEN_LIFE", timedelta(seconds=-1))
    status, _, body = sign_in(cloud).ask("GET", f"/v2/{repository}/tags/list")
    assert status == 403
    assert json.loads(body)["errors"][0] == {
        "code": "DENIED",
        "message": "Your authorization token has expired. Reauthenticate and try again.",
    }


def test_tokens_are_all_different_and_in_the_journal(cloud: Cloud) -> None:
    ecr = cloud.client("ecr")
    tokens = [
        base64.b64decode(ecr.get_authorization_token()["authorizationData"][0]["authorizationToken"]).decode()
        for _ in range(2)
    ]
    assert tokens[0] != tokens[1]
    issued = {entry["value"] for entry in journal(cloud.directory, "issued.jsonl") if entry["kind"].startswith("Ecr")}
    assert {token.removeprefix("AWS:") for token in tokens} <= issued


def test_deleted_repository_is_empty_when_it_comes_back(cloud: Cloud, repository: str) -> None:
    client = sign_in(cloud)
    config, layer = b"{}", b"layer"
    for blob in (config, layer):
        client.push_blob(repository, blob)
    client.ask("PUT", f"/v2/{repository}/manifests/one", manifest(config, layer), Content_Type=MANIFEST_TYPE)
    path = f"/v2/{repository}/manifests/one"
    assert client.ask("GET", path, Accept=MANIFEST_TYPE)[0] == 200
    ecr = cloud.client("ecr")
    with pytest.raises(ecr.exceptions.RepositoryNotEmptyException):
        ecr.delete_repository(repositoryName=repository)
    ecr.delete_repository(repositoryName=repository, force=True)
    assert client.ask("GET", path, Accept=MANIFEST_TYPE)[0] == 404
    ecr.create_repository(repositoryName=repository)
    status, _, body = client.ask("GET", path, Accept=MANIFEST_TYPE)
    assert (status, json.loads(body)["errors"][0]["code"]) == (404, "MANIFEST_UNKNOWN")


def test_big_layers_are_not_kept_in_memory(cloud: Cloud, repository: str) -> None:
    size, block = 300 << 20, bytes(1 << 20)
    client = sign_in(cloud)
    path = client.ask("POST", f"/v2/{repository}/blobs/uploads/")[1]["Location"].removeprefix(
        f"https://{REGISTRY_HOST}"
    )
    sum_of = hashlib.sha256()

    def blocks() -> Iterator[bytes]:
        for _ in range(size // len(block)):
            sum_of.update(block)
            yield block

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    status, headers, _ = client.ask("PATCH", path, blocks(), Transfer_Encoding="chunked")
    assert status == 202
    path = headers["Location"].removeprefix(f"https://{REGISTRY_HOST}")
    assert client.ask("PUT", f"{path}&digest=sha256:{sum_of.hexdigest()}")[0] == 201
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 50 << 10  # KiB


def test_registry_that_is_not_installed(cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RegistryError, match=f"{BINARY} is not installed; on Debian: apt-get install"):
        Registry(tmp_path / "registry", cloud._world).start()
