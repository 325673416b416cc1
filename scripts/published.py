"""Which version of an image a registry has, by its label: https://distribution.github.io/distribution/spec/api/."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

VERSION_LABEL = "org.opencontainers.image.version"
"""https://github.com/opencontainers/image-spec/blob/main/annotations.md; each wheel's image has its ref or version."""

TIMEOUT_SECONDS = 20
_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


class UnreachableError(Exception):
    """The registry did not answer, or refused to; the message says which."""


class MissingError(Exception):
    """The registry answered and has no such image."""


@dataclass(frozen=True)
class Registry:
    """One repository of a registry; `insecure` means plain HTTP, as REGISTRY_INSECURE does."""

    host: str
    repository: str
    insecure: bool

    def version(self, tag: str) -> str | None:
        """The image's VERSION_LABEL, or None without one.

        :raises MissingError: there is no such tag
        :raises UnreachableError: the registry did not answer, or refused, or its answer is none
        """
        try:
            manifest = self._get(f"manifests/{tag}")
            if "manifests" in manifest:
                # The other entries are attestations, with the platform "unknown".
                images = [entry for entry in manifest["manifests"] if entry.get("platform", {}).get("os") != "unknown"]
                manifest = self._get(f"manifests/{images[0]['digest']}")
            config = self._get(f"blobs/{manifest['config']['digest']}")
            labels = config.get("config", {}).get("Labels") or {}
            version = labels.get(VERSION_LABEL)
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise UnreachableError(f"{self.host}: what it has as {self.repository}:{tag} is no image") from error
        return None if version is None else str(version)

    def _get(self, path: str) -> Any:
        scheme = "http" if self.insecure else "https"
        url = f"{scheme}://{self.host}/v2/{self.repository}/{path}"
        request = urllib.request.Request(url, headers={"Accept": ", ".join(_MANIFESTS)})  # noqa: S310  (http or https)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                raise MissingError(f"{self.host} has no {self.repository} {path}") from error
            raise UnreachableError(f"{self.host} answered {error.code} {error.reason}") from error
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise UnreachableError(f"{self.host}: {error}") from error
