"""The box's configuration file and the fixed places on the box.

Written by the user data, read by everything under ``buildspec.box``. Standard library only: the Pulumi
program imports it too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

CONFIG_FILE = Path("/etc/rocm-build-box/box.json")
"""Not secret: names, targets and bake variables."""

CONTEXT_DIRECTORY = Path("/opt/rocm-build-box")
"""The unpacked build context. An AMI may bring ``ami/*.hcl`` here: bake files that are appended to the
project's."""

RUNTIME_DIRECTORY = Path("/run/rocm-build")
"""tmpfs, mode 0700, made and removed by systemd with the build's unit (RuntimeDirectory=)."""

TOKEN_FILE = RUNTIME_DIRECTORY / "token"
"""The credential service's bearer token."""

SECRET_FILE = RUNTIME_DIRECTORY / "aws"
"""The BuildKit secret ``id=aws``: where to ask for credentials, and the token; never the credentials
themselves."""

STATE_FILE = Path("/var/lib/rocm-build-box/status.json")
LOG_FILE = Path("/var/log/rocm-build-box/build.log")

METADATA_FILE = RUNTIME_DIRECTORY / "bake-metadata.json"
"""What ``docker buildx bake --metadata-file`` wrote: the pushed images' digests."""

RUNNER_ERROR_FILE = RUNTIME_DIRECTORY / "runner-error"
"""Why the runner gave up, for the build's status; in memory, because what it met may be a full disk."""

INSTANCE_ID_FILE = Path("/var/lib/cloud/data/instance-id")
"""Written by cloud-init on every boot (https://docs.cloud-init.io/en/latest/explanation/analyze.html,
"data")."""

BRIDGE_ADDRESS = "172.17.0.1"
"""The host's address on docker0, fixed by ``bip`` in /etc/docker/daemon.json."""

CREDENTIALS_PORT = 7788
CREDENTIALS_URI = f"http://{BRIDGE_ADDRESS}:{CREDENTIALS_PORT}/credentials"

SESSION_NAME_LENGTH = 64
"""Longest RoleSessionName (https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html)."""


class ConfigError(ValueError):
    """The box's configuration is not usable; the message names the key, the value and what is allowed."""


@dataclass(frozen=True)
class BuildContext:
    """The build context's object in the bucket."""

    key: str
    sha256: str
    """Lower-case hexadecimal SHA-256 of the object's bytes."""


@dataclass(frozen=True)
class BoxConfig:
    """One build's configuration, the same on the operator's machine and on the box."""

    stack: str
    region: str
    bucket: str
    cache_prefix: str
    """Key prefix of the compile cache, without slashes at its ends."""
    context: BuildContext
    cache_role_arn: str
    session_policy: Mapping[str, Any]
    """Policy document given to AssumeRole, which narrows the cache role to this build."""
    log_group: str
    targets: tuple[str, ...]
    bake_variables: Mapping[str, str]
    """Put into the environment of the build specification's commands, REGISTRY* and SCCACHE_* included."""
    keep_box: bool
    """True: the box stays up after the build."""
    max_lifetime_hours: int
    """Hours after boot at which the box powers itself off, whatever happens; at least 1."""

    def to_json(self) -> str:
        """Return the configuration file's text; equal configurations give equal bytes."""
        document = {
            "stack": self.stack,
            "region": self.region,
            "bucket": self.bucket,
            "cachePrefix": self.cache_prefix,
            "context": {"key": self.context.key, "sha256": self.context.sha256},
            "cacheRoleArn": self.cache_role_arn,
            "sessionPolicy": dict(self.session_policy),
            "logGroup": self.log_group,
            "targets": list(self.targets),
            "bakeVariables": dict(self.bake_variables),
            "keepBox": self.keep_box,
            "maxLifetimeHours": self.max_lifetime_hours,
        }
        return json.dumps(document, indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> BoxConfig:
        """Read what :meth:`to_json` wrote.

        Raises:
            ConfigError: not JSON, a key missing or unknown, or a value of the wrong type.
        """
        document = _object(text)
        _exact_keys("the box configuration", document, _KEYS)
        context = _typed(document, "context", dict)
        _exact_keys("context", context, {"key", "sha256"})
        variables = _typed(document, "bakeVariables", dict)
        return cls(
            stack=_typed(document, "stack", str),
            region=_typed(document, "region", str),
            bucket=_typed(document, "bucket", str),
            cache_prefix=_typed(document, "cachePrefix", str),
            context=BuildContext(key=_typed(context, "key", str), sha256=_typed(context, "sha256", str)),
            cache_role_arn=_typed(document, "cacheRoleArn", str),
            session_policy=_typed(document, "sessionPolicy", dict),
            log_group=_typed(document, "logGroup", str),
            targets=tuple(_check("targets", target, str) for target in _typed(document, "targets", list)),
            bake_variables={name: _check(name, value, str) for name, value in variables.items()},
            keep_box=_typed(document, "keepBox", bool),
            max_lifetime_hours=_typed(document, "maxLifetimeHours", int),
        )

    @classmethod
    def load(cls, path: Path) -> BoxConfig:
        """Read the configuration file.

        Raises:
            ConfigError: see :meth:`from_json`.
            OSError: the file cannot be read.
        """
        return cls.from_json(path.read_text(encoding="utf-8"))

    def run_id(self, instance_id: str) -> str:
        """Return the build's name in logs and in the registry: box stack and instance."""
        return f"{self.stack}-{instance_id}"

    def build_key(self, instance_id: str, name: str) -> str:
        """Key of one of this build's own objects (``status.json``, ``build.log``) in the bucket."""
        return f"builds/{self.stack}/{instance_id}/{name}"


_KEYS = {
    "stack",
    "region",
    "bucket",
    "cachePrefix",
    "context",
    "cacheRoleArn",
    "sessionPolicy",
    "logGroup",
    "targets",
    "bakeVariables",
    "keepBox",
    "maxLifetimeHours",
}


def instance_id(path: Path) -> str:
    """Return the EC2 instance id in cloud-init's file, for example ``i-0123456789abcdef0``."""
    return path.read_text(encoding="utf-8").strip()


def _object(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"the box configuration is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise ConfigError(f"the box configuration must be a JSON object, not {type(document).__name__}")
    return document


def _exact_keys(what: str, document: Mapping[str, Any], keys: set[str]) -> None:
    missing, unknown = sorted(keys - document.keys()), sorted(document.keys() - keys)
    if missing or unknown:
        raise ConfigError(f"{what}: missing keys {missing}, unknown keys {unknown}; allowed are {sorted(keys)}")


def _typed(document: Mapping[str, Any], key: str, kind: type[T]) -> T:
    return _check(key, document[key], kind)


def _check(key: str, value: object, kind: type[T]) -> T:
    # bool is a subclass of int in Python, but true is no number of hours.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ConfigError(f"{key}: {value!r} is of type {type(value).__name__}; {kind.__name__} is needed")
    return value
