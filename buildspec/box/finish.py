"""ExecStopPost of the build's unit: shreds the secrets, reports the end, powers the box off.

systemd runs it after success, failure, SIGKILL and time-out alike, and tells what happened in
$SERVICE_RESULT, $EXIT_CODE and $EXIT_STATUS (systemd.exec(5)). Every step is tried, whatever became of the
one before; a step that fails is reported in the journal and makes the exit code 1.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

import boto3
from boto3.exceptions import Boto3Error
from botocore.exceptions import BotoCoreError, ClientError

from buildspec.box import config as box
from buildspec.box import status
from buildspec.box.cache_probe import Patience
from buildspec.box.config import BoxConfig
from buildspec.box.runner import LAST_LINES
from buildspec.box.status import BuildStatus, StatusFile

STORING_SECONDS, STORING_PAUSE_SECONDS = 180.0, 5.0
"""How long log and status are tried to be stored: whoever waits for them never sees the box again. Within the
unit's TimeoutStopSec=."""


def shred(directory: Path) -> None:
    """Overwrite and remove every file under ``directory``.

    Raises:
        subprocess.CalledProcessError: shred failed.
    """
    files = sorted(str(path) for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
    if files:
        subprocess.run(["shred", "-u", "--", *files], check=True)


def outcome(environment: Mapping[str, str], runner_error: str | None) -> tuple[int, str | None]:
    """Return the build's exit code and, if something else than one of its commands ended it, what that was.

    ``runner_error`` is why the runner gave up, if it did.

    A stop or a power-off in the middle of the build has SERVICE_RESULT=success, so that says nothing: only a
    process that exited by itself with 0 has succeeded. Without EXIT_CODE the main process never ran: an
    ExecStartPre= failed.
    """
    result = environment["SERVICE_RESULT"]
    if "EXIT_CODE" not in environment:
        return 1, f"the unit failed before the runner began (result {result})"
    exit_status = environment["EXIT_STATUS"]
    if environment["EXIT_CODE"] == "exited":
        if result in ("success", "exit-code"):
            return int(exit_status), None if runner_error is None else f"the runner failed: {runner_error}"
        return max(1, int(exit_status)), _REASONS.get(result, f"the unit ended with result {result}")
    number = status.SIGNAL_EXIT_CODES + signal.Signals[f"SIG{exit_status}"].value
    killed = f"{environment['EXIT_CODE']} by signal {exit_status}"
    return number, f"{_REASONS[result]} ({killed})" if result in _REASONS else killed


_REASONS = {
    "timeout": "stopped at its time limit, RuntimeMaxSec=",
    "oom-kill": "killed because memory ran out",
    "success": "stopped from outside, by systemctl stop or a power-off",
}


def final_status(current: BuildStatus, exit_code: int, ended_by: str | None, log_tail: list[str]) -> BuildStatus:
    """Return the status of the ended build, from the last one that the runner wrote."""
    ended = status.now()
    final = current.copy()
    final["state"] = "succeeded" if exit_code == 0 and ended_by is None else "failed"
    final["exitCode"] = exit_code
    final["updatedAt"] = final["endedAt"] = ended
    if ended_by is not None:
        final["failingStep"] = f"{current['phase']}: {ended_by}"
    if final["state"] == "failed":
        if final["failingStep"] is None:
            final["failingStep"] = f"{current['phase']}: exit code {exit_code}, see build.log and the unit's journal"
        if not final["lastLines"]:
            final["lastLines"] = log_tail
    return final


def stored_status(state: StatusFile, config: BoxConfig, instance: str) -> BuildStatus:
    """Return the runner's last status, or that of a build that ended before the runner began."""
    try:
        current = state.read()
    except (OSError, json.JSONDecodeError) as error:
        lost = status.new(config, instance)
        lost["warnings"] = [f"no status of the runner's: {error}"]
        return lost
    # The file outlives a build: on a kept box it may be an older one's.
    return current if current["state"] == "running" else status.new(config, instance)


def tail(path: Path) -> list[str]:
    """Return the last lines of the log; none when there is no log."""
    if not path.exists():
        return []
    return path.read_text(encoding="utf-8").splitlines()[-LAST_LINES:]


def runner_error(path: Path) -> str | None:
    """Return why the runner gave up; None when it did not."""
    return path.read_text(encoding="utf-8") if path.exists() else None


def storing(call: Callable[[], None], patience: Patience) -> None:
    """Call what stores something in S3; as long as there is patience again, when S3 fails or is not reached.

    Raises:
        boto3.exceptions.Boto3Error, botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError: S3
            refuses, or does not answer in time.
    """
    while True:
        try:
            return call()
        except (Boto3Error, BotoCoreError, ClientError) as error:
            # boto3's own error for an upload has S3's as its context.
            response = getattr(error, "response", None) or getattr(error.__context__, "response", None)
            refused = response is not None and response["ResponseMetadata"]["HTTPStatusCode"] < 500
            if refused or not patience.wait():
                raise


class Steps:
    """Runs steps one after the other; a step that fails does not keep the next from being tried."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def attempt(self, name: str, step: Callable[[], None]) -> None:
        """Run the step and report what it raised."""
        try:
            step()
        except Exception:  # the report and the power-off must not depend on what it was
            self.failed.append(name)
            print(f"finish: {name} failed:\n{traceback.format_exc()}", file=sys.stderr, flush=True)


def main() -> int:
    """End the build."""
    steps = Steps()
    gave_up: str | None = None

    def read_error() -> None:
        nonlocal gave_up
        gave_up = runner_error(box.RUNNER_ERROR_FILE)

    # It is in the directory that is shredded.
    steps.attempt("runner's error", read_error)
    # Early: what comes later may hang or fail.
    steps.attempt("shred", lambda: shred(box.RUNTIME_DIRECTORY))
    keep_box = False

    def report() -> None:
        config, instance = BoxConfig.load(box.CONFIG_FILE), box.instance_id(box.INSTANCE_ID_FILE)
        nonlocal keep_box
        keep_box = config.keep_box
        s3 = boto3.client("s3", region_name=config.region)
        patience = Patience(STORING_SECONDS, STORING_PAUSE_SECONDS)

        def upload_log() -> None:
            s3.upload_file(
                str(box.LOG_FILE),
                config.bucket,
                config.build_key(instance, "build.log"),
                ExtraArgs={"ContentType": "text/plain; charset=utf-8"},
            )

        if box.LOG_FILE.exists():
            steps.attempt("log upload", lambda: storing(upload_log, patience))
        state = StatusFile(box.STATE_FILE)
        exit_code, ended_by = outcome(os.environ, gave_up)
        current = stored_status(state, config, instance)
        final = final_status(current, exit_code, ended_by, tail(box.LOG_FILE))
        final["warnings"] = [
            *final["warnings"],
            *(f"{name} failed, see the unit's journal" for name in steps.failed),
        ]
        steps.attempt("status file", lambda: state.write(final))
        storing(lambda: status.publish(s3, config, final), patience)

    steps.attempt("report", report)
    if not keep_box:
        steps.attempt("power-off", lambda: _run(["systemctl", "poweroff", "--no-block"]))
    return 1 if steps.failed else 0


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    sys.exit(main())
