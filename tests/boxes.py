"""Booted boxes and their builds, for the tests of several packages.

What they do not prove: that real AWS behaves as the stand-in does.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from buildspec.box.status import BuildStatus
from rehearsal.builds import BuildOutputs, read_status, wait_for_end, wait_for_power_off
from rehearsal.machine import Machine
from rehearsal.miniature.world import Miniature
from rehearsal.region import Region
from rehearsal.setup import Setup
from rehearsal.stacks import Stack, Workspace

BOX = {"layer": "box", "targets": ["cache-probe"]}
# Long enough for a slow machine, and less than the limit of a whole test, which would not say what it has waited for.
BUILD_SECONDS = 1500.0
WAIT_SECONDS = 600.0
UNIT = "rocm-build.service"
BUILDER = "buildx_buildkit_rocm-build-box0"
"""The container of a box's builder; what earlier builds left is in a volume, `BUILDER_state`."""
_RUNTIME_DIRECTORY = "/run/rocm-build"


def until(what: str, condition: Callable[[], object], *, seconds: float = WAIT_SECONDS) -> None:
    """Wait for a condition.

    Raises:
        TimeoutError: it did not come true in time.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(0.1)


@dataclass
class Build:
    """A build that ended, and what is known of it."""

    outputs: BuildOutputs
    status: BuildStatus
    log: str
    token: str
    """The credential service's bearer token of this build, read on the box while it ran."""


@dataclass
class Job:
    """The main job, as far as it has come."""

    region: Region
    workspace: Workspace
    foundation: Stack
    box: Stack
    planted: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    """A text that is written to the first box's journal and disk while it runs."""
    no_changes: dict[str, subprocess.CompletedProcess[str]] = field(default_factory=dict)
    builds: list[Build] = field(default_factory=list)
    second_up: subprocess.CompletedProcess[str] | None = None
    """The `up` after the first box had ended itself."""

    def requests(self) -> list[dict[str, Any]]:
        """Every request that the region has answered."""
        return self._journal("requests.jsonl")

    def issued(self) -> list[dict[str, Any]]:
        """Every key and token that the region has issued."""
        return self._journal("issued.jsonl")

    def _journal(self, name: str) -> list[dict[str, Any]]:
        # The last line may be half written.
        whole, _, _ = (self.region.cloud.directory / name).read_text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    def log_of(self, outputs: BuildOutputs) -> str:
        s3 = self.region.cloud.client("s3")
        body: bytes = s3.get_object(Bucket=outputs.bucket, Key=outputs.log_key)["Body"].read()
        return body.decode()

    def running_box(self) -> tuple[BuildOutputs, Machine]:
        outputs = BuildOutputs.of(self.box.outputs())
        return outputs, self.region.wait_for_machine(outputs.instance_id)

    def finish_build(self, *, powers_off: bool = True) -> None:
        """Wait for the end of the build that is running."""
        outputs, machine = self.running_box()
        token = read_token(machine)
        status = wait_for_end(self.region, outputs, timeout=BUILD_SECONDS)
        if powers_off:
            wait_for_power_off(self.region, outputs)
        self.builds.append(Build(outputs, status, self.log_of(outputs), token))


def read_token(machine: Machine) -> str:
    path = f"{_RUNTIME_DIRECTORY}/token"
    until("a build that has begun", lambda: machine.execute(["cat", path]).returncode == 0)
    return machine.execute(["cat", path]).stdout.strip()


@contextmanager
def foundation_up(
    setup: Setup,
    rootfs: Path,
    directory: Path,
    settings: Mapping[str, Any] = BOX,
    miniature: Miniature | None = None,
) -> Iterator[Job]:
    """A region with a foundation, and a box stack with `settings` that is not up yet."""
    with Region(directory / "region", rootfs, miniature) as region:
        workspace = Workspace(directory / "workspace", setup.engine, region.environment())
        foundation = workspace.stack("foundation", {"layer": "foundation"})
        foundation.up()
        yield Job(region, workspace, foundation, workspace.stack("dev", settings))


@dataclass
class KeptBox:
    """A box with `keepBox`, on which builds can be started again under other conditions."""

    job: Job
    outputs: BuildOutputs
    machine: Machine

    def run(self, *command: str) -> str:
        done = self.machine.execute(command)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start_build(self) -> None:
        """Start a build; what the one before has stored is removed, so that it cannot be taken for this one's."""
        s3 = self.job.region.cloud.client("s3")
        for key in (self.outputs.status_key, self.outputs.log_key):
            s3.delete_object(Bucket=self.outputs.bucket, Key=key)
        self.machine.execute(["systemctl", "reset-failed", UNIT])
        self.run("systemctl", "start", UNIT)

    def wait_for_end(self) -> None:
        """Wait until the unit of the build that was started has ended whole, ExecStopPost included."""

        def ended() -> bool:
            state = self.run("systemctl", "show", "--property=ActiveState", "--value", UNIT).strip()
            return state in ("failed", "inactive")

        until("the end of the build", ended, seconds=BUILD_SECONDS)

    def wait_for_build(self) -> BuildStatus:
        """The status of the build that was started, once it has ended."""
        self.wait_for_end()
        status = read_status(self.job.region, self.outputs)
        assert status is not None
        return status

    def build(self) -> BuildStatus:
        self.start_build()
        return self.wait_for_build()

    def secrets_left(self) -> list[str]:
        """The files in the runtime directory, which holds every secret of a build."""
        done = self.machine.execute(["find", _RUNTIME_DIRECTORY, "-type", "f"])
        return done.stdout.splitlines()


def keep_box(job: Job, settings: Mapping[str, Any] = BOX) -> KeptBox:
    """Build on a new box that stays."""
    job.box.configure({**settings, "keepBox": True})
    job.box.up()
    job.finish_build(powers_off=False)
    kept = KeptBox(job, *job.running_box())
    kept.wait_for_build()
    return kept


@contextmanager
def file_on(kept: KeptBox, path: str, content: str | bytes) -> Iterator[None]:
    """A file on the box that is gone afterwards."""
    kept.machine.write(path, content)
    try:
        yield
    finally:
        if kept.machine.running:
            kept.run("rm", "--force", path)


@contextmanager
def without_action(kept: KeptBox, role: str, action: str) -> Iterator[None]:
    """A role without one of the actions of its only policy."""
    iam = kept.job.region.cloud.client("iam")
    (name,) = iam.list_role_policies(RoleName=role)["PolicyNames"]
    whole = iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
    less = json.loads(json.dumps(whole))
    for statement in less["Statement"]:
        allowed = [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]
        statement["Action"] = [other for other in allowed if other != action]
    less["Statement"] = [statement for statement in less["Statement"] if statement["Action"]]
    assert less != whole
    iam.put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=json.dumps(less))
    try:
        yield
    finally:
        iam.put_role_policy(RoleName=role, PolicyName=name, PolicyDocument=json.dumps(whole))
