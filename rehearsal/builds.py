"""Follows a build on a box by what it leaves in the bucket, as an operator without access to the box does."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from buildspec.box.status import BuildStatus
from rehearsal.console import StepError
from rehearsal.region import Region

_POLL_SECONDS = 0.5
# A box boots, installs and fetches its context before it says anything; longer than this it never will.
_FIRST_WORD_SECONDS = 180.0


@dataclass(frozen=True)
class BuildOutputs:
    """The outputs of a box stack that name its build."""

    instance_id: str
    bucket: str
    status_key: str
    log_key: str

    @classmethod
    def of(cls, outputs: Mapping[str, Any]) -> BuildOutputs:
        """Take them from the stack's outputs."""

        def key(uri: str) -> str:
            return uri.removeprefix(f"s3://{outputs['bucketName']}/")

        return cls(
            instance_id=outputs["instanceId"],
            bucket=outputs["bucketName"],
            status_key=key(outputs["statusUri"]),
            log_key=key(outputs["logUri"]),
        )


def read_status(region: Region, build: BuildOutputs) -> BuildStatus | None:
    """The build's status as it is in the bucket; None while there is none."""
    s3 = region.cloud.client("s3")
    try:
        body = s3.get_object(Bucket=build.bucket, Key=build.status_key)["Body"].read()
    except s3.exceptions.NoSuchKey:
        return None
    status: BuildStatus = json.loads(body)
    return status


def wait_for_end(
    region: Region,
    build: BuildOutputs,
    *,
    timeout: float,
    on_progress: Callable[[BuildStatus], None] = lambda _: None,
) -> BuildStatus:
    """Wait until the status says that the build ended, well or badly.

    Args:
        region: where the box runs.
        build: which build.
        timeout: seconds.
        on_progress: called with each status in which something is new.

    Raises:
        StepError: when the box ended without a final status, or the time is over; with the box's last words.
    """
    started = time.monotonic()
    seen = None
    while True:
        region.check()
        machine = region.machines.get(build.instance_id)
        # Asked before the status is read: a box writes its last status before it powers off.
        ended = machine is not None and not machine.running
        status = read_status(region, build)
        if status is not None and status != seen:
            seen = status
            on_progress(status)
        if status is not None and status["state"] != "running":
            return status
        waited = time.monotonic() - started
        silent = status is None and waited > _FIRST_WORD_SECONDS
        if ended or silent or waited > timeout:
            raise StepError(
                f"build on {build.instance_id}",
                "the box ended without a final status" if ended else f"no end after {waited:.0f} s",
                last_lines=machine.last_words() if machine is not None else [],
                next_action="the lines above are the box's own; its whole console and journal are in "
                f"{region.directory / 'machines' / build.instance_id}",
            )
        time.sleep(_POLL_SECONDS)


def wait_for_power_off(region: Region, build: BuildOutputs, *, timeout: float = 60.0) -> None:
    """Wait until EC2 says that the box is terminated.

    Raises:
        StepError: when it is not within `timeout` seconds.
    """
    ec2 = region.cloud.client("ec2")
    deadline = time.monotonic() + timeout
    while True:
        region.check()
        answer = ec2.describe_instances(InstanceIds=[build.instance_id])
        state = answer["Reservations"][0]["Instances"][0]["State"]["Name"]
        if state == "terminated":
            return
        if time.monotonic() > deadline:
            raise StepError(f"power-off of {build.instance_id}", f"still {state} after {timeout:.0f} s")
        time.sleep(_POLL_SECONDS)
