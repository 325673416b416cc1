"""A registry's HTTP API, as far as the box asks it itself: whether it answers, and which tags it has.

https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md
"""

from __future__ import annotations

import base64
import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import boto3

from buildspec.box import ecr_credentials

REQUEST_SECONDS = 30.0

MANIFEST_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
"""A registry answers 404 for a manifest whose type is not accepted."""

Scheme = Literal["http", "https"]


class RegistryError(RuntimeError):
    """The registry is not what the build needs; the message says what it answered."""


@dataclass(frozen=True)
class Reference:
    """Where an image or a layer cache is kept."""

    host: str
    """With its port, if it has one."""
    repository: str
    tag: str

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Read ``host/repository:tag``.

        Raises:
            RegistryError: another form, such as one without a registry or by digest.
        """
        host, _, path = text.partition("/")
        repository, _, tag = path.rpartition(":")
        if not host or not repository or not tag or "@" in text:
            raise RegistryError(f"{text!r} is not of the form registry/repository:tag")
        return cls(host, repository, tag)

    def __str__(self) -> str:
        return f"{self.host}/{self.repository}:{self.tag}"


@dataclass(frozen=True)
class Registry:
    """One registry, asked as whoever has the box's role; other registries than ECR are asked without a login."""

    host: str
    scheme: Scheme

    def answers(self) -> int:
        """Return the status of the API's root: 200 for who may go on, 401 for who has to log in first.

        Raises:
            OSError, http.client.HTTPException: it was not reached, or speaks something else.
            botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError: ECR gave no login.
        """
        return self._ask("GET", "/v2/").status

    def has(self, reference: Reference) -> bool:
        """Return whether the tag is there.

        Raises:
            RegistryError: the registry answers neither yes nor no.
            OSError, http.client.HTTPException, botocore.exceptions.BotoCoreError,
            botocore.exceptions.ClientError: see :meth:`answers`.
        """
        response = self._ask("HEAD", f"/v2/{reference.repository}/manifests/{reference.tag}")
        if response.status not in (http.HTTPStatus.OK, http.HTTPStatus.NOT_FOUND):
            raise RegistryError(f"{reference}: the registry answers {response.status} {response.reason}")
        return response.status == http.HTTPStatus.OK

    def _ask(self, method: str, path: str) -> http.client.HTTPResponse:
        connection: http.client.HTTPConnection
        if self.scheme == "https":
            context = ssl.create_default_context()
            connection = http.client.HTTPSConnection(self.host, timeout=REQUEST_SECONDS, context=context)
        else:
            connection = http.client.HTTPConnection(self.host, timeout=REQUEST_SECONDS)
        try:
            connection.request(method, path, headers={"Accept": ", ".join(MANIFEST_TYPES), **self._login()})
            response = connection.getresponse()
            response.read()
            return response
        finally:
            connection.close()

    def _login(self) -> Mapping[str, str]:
        match = ecr_credentials.REGISTRY_HOST.fullmatch(self.host)
        # A password must not travel in the clear; ECR has no plain HTTP anyway.
        if match is None or self.scheme != "https":
            return {}
        login = ecr_credentials.login(boto3.client("ecr", region_name=match["region"]), self.host)
        encoded = base64.b64encode(f"{login['Username']}:{login['Secret']}".encode()).decode()
        return {"Authorization": f"Basic {encoded}"}
