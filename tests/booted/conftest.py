"""One run of the main job on booted boxes, which the tests of this package judge: two builds that end themselves, and a
third box that is kept.

What this does not prove: that real AWS behaves as the stand-in does.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from buildspec.box.status import BuildStatus
from rehearsal.builds import BuildOutputs, read_status, wait_for_end, wait_for_power_off
from rehearsal.machine import Machine
from rehearsal.miniature.world import Miniature
from rehearsal.region import Region
from rehearsal.setup import Setup
from rehearsal.stacks import Stack, Workspace

BOX = {"layer": "box", "targets": ["cache-probe"]}
BUILD_SECONDS = 900.0
_UNIT = "rocm-build.service"
_RUNTIME_DIRECTORY = "/run/rocm-build"


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
    """A text that is written to the first box's journal while it runs."""
    no_changes: dict[str, subprocess.CompletedProcess[str]] = field(default_factory=dict)
    builds: list[Build] = field(default_factory=list)
    second_up: subprocess.CompletedProcess[str] | None = None
    """The `up` after the first box had ended itself."""

    def requests(self) -> list[dict[str, Any]]:
        """Every request that the region has answered."""
        lines = (self.region.cloud.directory / "requests.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

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
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        done = machine.execute(["cat", f"{_RUNTIME_DIRECTORY}/token"])
        if done.returncode == 0:
            return done.stdout.strip()
        time.sleep(0.3)
    raise TimeoutError(f"{machine.instance_id}: no build has begun: {machine.last_words()}")


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


@pytest.fixture(scope="package")
def job(setup: Setup, rootfs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    with foundation_up(setup, rootfs, tmp_path_factory.mktemp("booted")) as job:
        job.no_changes["foundation"] = job.foundation.attempt("up", "--yes", "--skip-preview", "--expect-no-changes")
        job.box.up()
        _, machine = job.running_box()
        written = machine.execute(["logger", f"planted: {job.planted}"])
        assert written.returncode == 0, written.stderr
        job.no_changes["box"] = job.box.attempt("up", "--yes", "--skip-preview", "--expect-no-changes")
        job.finish_build()
        job.second_up = job.box.attempt("up", "--yes", "--skip-preview")
        job.finish_build()
        yield job


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
        self.machine.execute(["systemctl", "reset-failed", _UNIT])
        self.run("systemctl", "start", _UNIT)

    def wait_for_end(self) -> None:
        """Wait until the unit of the build that was started has ended whole, ExecStopPost included."""
        deadline = time.monotonic() + BUILD_SECONDS
        while self.run("systemctl", "show", "--property=ActiveState", "--value", _UNIT).strip() not in (
            "failed",
            "inactive",
        ):
            assert time.monotonic() < deadline
            time.sleep(0.3)

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


@pytest.fixture(scope="package")
def kept(job: Job) -> KeptBox:
    return keep_box(job)
