#!/usr/bin/python3
"""Fetches the build context onto the box and starts the build.

cloud-init writes this file from the user data, before anything else of the project is on the box: it stands
alone. Whatever goes wrong here is reported as the build's status and ends the box, unless the box is to be
kept.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types_boto3_s3 import S3Client

CONFIG_FILE = Path("/etc/rocm-build-box/box.json")
INSTANCE_ID_FILE = Path("/var/lib/cloud/data/instance-id")
CONTEXT_DIRECTORY = Path("/opt/rocm-build-box")
# The system's store, so that a CA which an AMI adds is honoured; botocore brings a bundle of its own.
CA_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
# IAM is eventually consistent: a role made a minute ago may be refused at first.
ATTEMPTS = 10
PAUSE_SECONDS = 6.0
RETRIED_CODES = {"403", "AccessDenied", "InvalidAccessKeyId", "SlowDown", "Throttling", "ThrottlingException"}


def download(s3: S3Client, bucket: str, key: str, attempts: int = ATTEMPTS, pause: float = PAUSE_SECONDS) -> bytes:
    """Return the object's bytes; what may pass is tried again, the last error is raised."""
    from botocore.exceptions import BotoCoreError, ClientError

    for attempt in range(1, attempts + 1):
        try:
            return s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        except (BotoCoreError, ClientError) as error:
            if attempt == attempts or not passes(error):
                raise
            print(f"attempt {attempt} of {attempts}: s3://{bucket}/{key}: {error}", flush=True)
            time.sleep(pause)
    raise ValueError(f"attempts: {attempts} is not at least 1")


def passes(error: Exception) -> bool:
    """Return whether to try again: refused (see ATTEMPTS), throttled, a fault of the server or the network."""
    response = getattr(error, "response", None)
    if response is None:
        return True
    return response["ResponseMetadata"]["HTTPStatusCode"] >= 500 or response["Error"]["Code"] in RETRIED_CODES


def unpack(archive: bytes, sha256: str, destination: Path) -> None:
    """Unpacks the verified archive. What an AMI has already put beside it (ami/) stays."""
    found = hashlib.sha256(archive).hexdigest()
    if found != sha256:
        raise ValueError(f"the build context's SHA-256 is {found}, the user data names {sha256}; run pulumi up again")
    destination.mkdir(parents=True, exist_ok=True)
    # Beside the destination: rename works within one file system only, and leaves no half-written file
    # behind.
    with tempfile.TemporaryDirectory(dir=destination.parent) as directory:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
            tar.extractall(directory, filter="data")
        for piece in Path(directory).iterdir():
            target = destination / piece.name
            if target.is_dir():
                shutil.rmtree(target)
            piece.rename(target)


def start(directory: Path) -> None:
    """Installs the units and starts the build.

    What the build's unit requires is started first and waited for: a start that fails because of a dependency
    runs no ExecStopPost=, so nobody would report it.
    """
    units = sorted(str(path) for path in (directory / "buildspec/box/units").iterdir())
    required = ["rocm-build-firewall.service", "docker.service", "rocm-build-credentials.socket"]
    for command in (
        # Without its deadline a box that hangs costs money for ever.
        ["systemctl", "is-active", "rocm-build-deadline.timer"],
        ["systemctl", "link", *units],
        ["systemctl", "start", *required],
        ["systemctl", "start", "--no-block", "rocm-build.service"],
    ):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        print(done.stdout, end="", flush=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}: {done.stdout.strip()}")


def failed_status(config: dict[str, Any], instance_id: str, started: str, error: Exception) -> dict[str, Any]:
    """Return the status object of a build that has not begun."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "runId": f"{config['stack']}-{instance_id}",
        "instanceId": instance_id,
        "state": "failed",
        "phase": "fetch-context",
        "startedAt": started,
        "updatedAt": now,
        "endedAt": now,
        "exitCode": 1,
        "failingStep": "fetch-context",
        "lastLines": str(error).splitlines(),
        "cache": None,
        "images": {},
        "phases": [],
        "warnings": [],
    }


def report(s3: S3Client, config: dict[str, Any], started: str, error: Exception) -> None:
    """Put the failed status into the bucket."""
    instance_id = INSTANCE_ID_FILE.read_text().strip()
    s3.put_object(
        Bucket=config["bucket"],
        Key=f"builds/{config['stack']}/{instance_id}/status.json",
        Body=json.dumps(failed_status(config, instance_id, started, error), indent=1).encode(),
        ContentType="application/json",
    )


def main() -> int:
    """Fetch the context and start the build; on a failure report it and end the box."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    config: dict[str, Any] = {}
    s3: S3Client | None = None
    try:
        config = json.loads(CONFIG_FILE.read_text())
        os.environ["AWS_CA_BUNDLE"] = CA_BUNDLE
        # Here, not above: when the package could not be installed the box must still end.
        import boto3

        s3 = boto3.client("s3", region_name=config["region"])
        context = config["context"]
        unpack(download(s3, config["bucket"], context["key"]), context["sha256"], CONTEXT_DIRECTORY)
        start(CONTEXT_DIRECTORY)
        return 0
    except Exception as error:  # whatever it was, it is reported and ends the box
        print(f"fetch-context: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        try:
            if s3 is None:
                print("fetch-context: no S3 client, the status cannot be stored", file=sys.stderr, flush=True)
            else:
                report(s3, config, started, error)
        except Exception as unreported:  # the same
            print(f"fetch-context: the status was not stored: {unreported}", file=sys.stderr, flush=True)
        if config.get("keepBox") is not True:
            subprocess.run(["systemctl", "poweroff", "--no-block"], check=True)
        return 1


if __name__ == "__main__":
    sys.exit(main())
