"""The build's status: one JSON file on the box, and its copy in the bucket that the operator reads."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from buildspec.box.config import BoxConfig

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

SIGNAL_EXIT_CODES = 128
"""A shell's exit code for a process killed by a signal is this much more than the signal's number."""


class PhaseStatus(TypedDict):
    """One phase of the build specification."""

    name: str
    startedAt: str
    seconds: float | None
    """Wall time; None while the phase runs."""
    exitCode: int | None


class CacheStatus(TypedDict):
    """sccache's statistics, summed over the compile steps that ran."""

    requests: int
    hits: int
    misses: int
    errors: int
    writeErrors: int
    compileSeconds: float
    steps: list[dict[str, Any]]


class BuildStatus(TypedDict):
    """The status object. Times are RFC 3339 in UTC."""

    runId: str
    instanceId: str
    state: Literal["running", "succeeded", "failed"]
    phase: str
    startedAt: str
    updatedAt: str
    endedAt: str | None
    exitCode: int | None
    failingStep: str | None
    lastLines: list[str]
    cache: CacheStatus | None
    """None until the bake's log has been read."""
    images: dict[str, str]
    phases: list[PhaseStatus]
    warnings: list[str]
    """What went wrong beside the build, such as shipping its log."""


def now() -> str:
    """Return the current time, RFC 3339 in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def new(config: BoxConfig, instance: str) -> BuildStatus:
    """Return the status of a build that has just begun."""
    started = now()
    return BuildStatus(
        runId=config.run_id(instance),
        instanceId=instance,
        state="running",
        phase="start",
        startedAt=started,
        updatedAt=started,
        endedAt=None,
        exitCode=None,
        failingStep=None,
        lastLines=[],
        cache=None,
        images={},
        phases=[],
        warnings=[],
    )


class StatusFile:
    """The status on the box's disk. Runner, commands and ExecStopPost= write it one after the other."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> BuildStatus:
        """Return the stored status.

        Raises:
            OSError: the file cannot be read.
            json.JSONDecodeError: it is not JSON.
        """
        status: BuildStatus = json.loads(self._path.read_text(encoding="utf-8"))
        return status

    def write(self, status: BuildStatus) -> None:
        """Replace the stored status in one step: a power-off in the middle leaves the old one."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_suffix(".new")
        temporary.write_text(to_json(status), encoding="utf-8")
        temporary.replace(self._path)

    def update(self, changes: dict[str, Any]) -> BuildStatus:
        """Change the given fields of the stored status.

        Raises:
            KeyError: a field that the status does not have.
        """
        unknown = sorted(changes.keys() - BuildStatus.__annotations__.keys())
        if unknown:
            raise KeyError(f"the status has no field {unknown}; it has {sorted(BuildStatus.__annotations__)}")
        status = cast(BuildStatus, {**self.read(), **changes, "updatedAt": now()})
        self.write(status)
        return status


def to_json(status: BuildStatus) -> str:
    """Return the status object's text."""
    return json.dumps(status, indent=1) + "\n"


def publish(s3: S3Client, config: BoxConfig, status: BuildStatus) -> None:
    """Put the status into the bucket.

    Raises:
        botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError: S3 was not reached, or refused.
    """
    s3.put_object(
        Bucket=config.bucket,
        Key=config.build_key(status["instanceId"], "status.json"),
        Body=to_json(status).encode("utf-8"),
        ContentType="application/json",
    )
