"""The end of a build, as ExecStopPost sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boto3
import pytest

from buildspec.box import config as box
from buildspec.box import finish, status
from buildspec.box.status import StatusFile
from tests.box.support import BUCKET, INSTANCE, box_config, executable

SUCCESS = {"SERVICE_RESULT": "success", "EXIT_CODE": "exited", "EXIT_STATUS": "0"}
FAILURE = {"SERVICE_RESULT": "exit-code", "EXIT_CODE": "exited", "EXIT_STATUS": "7"}


@pytest.mark.parametrize(
    ("result", "code", "exit_status", "expected"),
    [
        ("success", "exited", "0", (0, None)),
        ("exit-code", "exited", "7", (7, None)),
        ("signal", "killed", "KILL", (137, "killed by signal KILL")),
        ("core-dump", "dumped", "SEGV", (139, "dumped by signal SEGV")),
        (
            "timeout",
            "killed",
            "TERM",
            (143, "stopped at its time limit, RuntimeMaxSec= (killed by signal TERM)"),
        ),
        ("timeout", "exited", "0", (1, "stopped at its time limit, RuntimeMaxSec=")),
        ("oom-kill", "killed", "KILL", (137, "killed because memory ran out (killed by signal KILL)")),
        (
            "success",
            "killed",
            "TERM",
            (143, "stopped from outside, by systemctl stop or a power-off (killed by signal TERM)"),
        ),
        ("exit-code", None, None, (1, "the unit failed before the runner began (result exit-code)")),
    ],
)
def test_outcome(result: str, code: str | None, exit_status: str | None, expected: tuple[int, str | None]) -> None:
    environment = {"SERVICE_RESULT": result}
    if code is not None and exit_status is not None:
        environment |= {"EXIT_CODE": code, "EXIT_STATUS": exit_status}
    assert finish.outcome(environment, None) == expected


def test_outcome_of_a_runner_that_gave_up() -> None:
    assert finish.outcome(FAILURE, "OSError: full") == (7, "the runner failed: OSError: full")


@pytest.fixture
def build(aws: str, places: Path) -> Path:  # noqa: ARG001  # fixtures take no usefixtures
    """A build that has run its phases: status, log and secrets are there."""
    state = StatusFile(box.STATE_FILE)
    state.write(status.new(box_config(), INSTANCE))
    state.update({"phase": "build"})
    box.LOG_FILE.parent.mkdir()
    box.LOG_FILE.write_text("".join(f"line {number}\n" for number in range(100)))
    box.TOKEN_FILE.write_text("5ec3e7")
    (box.RUNTIME_DIRECTORY / "docker").mkdir()
    (box.RUNTIME_DIRECTORY / "docker/config.json").write_text("{}")
    return places


def stored(name: str) -> bytes:
    s3 = boto3.client("s3", region_name="us-east-1")
    return s3.get_object(Bucket=BUCKET, Key=f"builds/dev/{INSTANCE}/{name}")["Body"].read()


def end(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> int:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return finish.main()


def files_left() -> list[Path]:
    return [path for path in box.RUNTIME_DIRECTORY.rglob("*") if path.is_file()]


@pytest.mark.usefixtures("build")
def test_success(systemctl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert end(monkeypatch, SUCCESS) == 0
    assert files_left() == []
    final: dict[str, Any] = json.loads(stored("status.json"))
    assert (final["state"], final["exitCode"], final["failingStep"], final["lastLines"]) == (
        "succeeded",
        0,
        None,
        [],
    )
    assert final["endedAt"] is not None
    assert final == json.loads(box.STATE_FILE.read_text())
    assert stored("build.log") == box.LOG_FILE.read_bytes()
    assert systemctl.read_text() == "poweroff --no-block\n"


@pytest.mark.usefixtures("build")
def test_failure_keeps_what_the_runner_said(systemctl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    StatusFile(box.STATE_FILE).update({"failingStep": "build: make", "lastLines": ["cc: error"]})
    assert end(monkeypatch, FAILURE) == 0
    final = json.loads(stored("status.json"))
    assert (final["state"], final["exitCode"]) == ("failed", 7)
    assert (final["failingStep"], final["lastLines"]) == ("build: make", ["cc: error"])
    assert systemctl.read_text() == "poweroff --no-block\n"


@pytest.mark.usefixtures("build", "systemctl")
def test_killed_runner_is_named_with_its_phase_and_the_logs_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert end(monkeypatch, {"SERVICE_RESULT": "signal", "EXIT_CODE": "killed", "EXIT_STATUS": "KILL"}) == 0
    final = json.loads(stored("status.json"))
    assert (final["state"], final["exitCode"]) == ("failed", 137)
    assert final["failingStep"] == "build: killed by signal KILL"
    assert final["lastLines"] == [f"line {number}" for number in range(70, 100)]
    assert files_left() == []


@pytest.mark.usefixtures("build", "systemctl")
def test_runner_that_gave_up_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    box.RUNNER_ERROR_FILE.write_text("OSError: [Errno 28] No space left on device")
    assert end(monkeypatch, FAILURE) == 0
    final = json.loads(stored("status.json"))
    assert final["failingStep"] == "build: the runner failed: OSError: [Errno 28] No space left on device"
    assert files_left() == []


@pytest.mark.usefixtures("build")
def test_kept_box_is_not_powered_off(systemctl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box.CONFIG_FILE.write_text(box_config(keep_box=True).to_json())
    assert end(monkeypatch, SUCCESS) == 0
    assert systemctl.read_text() == ""


@pytest.mark.usefixtures("aws", "places")
def test_build_that_never_began(systemctl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EXIT_CODE", raising=False)
    assert end(monkeypatch, {"SERVICE_RESULT": "exit-code"}) == 0
    final = json.loads(stored("status.json"))
    assert (final["state"], final["exitCode"]) == ("failed", 1)
    assert final["failingStep"] == "start: the unit failed before the runner began (result exit-code)"
    [warning] = final["warnings"]
    assert warning.startswith("no status of the runner's: [Errno 2] No such file")
    assert systemctl.read_text() == "poweroff --no-block\n"


@pytest.mark.usefixtures("build", "systemctl")
def test_status_of_an_earlier_build_is_not_reported_again(monkeypatch: pytest.MonkeyPatch) -> None:
    StatusFile(box.STATE_FILE).update({"state": "succeeded", "images": {"old": "sha256:0"}})
    end(monkeypatch, FAILURE)
    final = json.loads(stored("status.json"))
    assert (final["state"], final["images"]) == ("failed", {})


@pytest.mark.usefixtures("build")
def test_failing_report_stops_neither_shredding_nor_power_off(
    systemctl: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    box.CONFIG_FILE.write_text(box_config(bucket="no-such-bucket").to_json())
    assert end(monkeypatch, SUCCESS) == 1
    assert files_left() == []
    assert systemctl.read_text() == "poweroff --no-block\n"
    journal = capfd.readouterr().err
    assert "finish: log upload failed:" in journal
    assert "finish: report failed:" in journal
    assert "NoSuchBucket" in journal
    kept = json.loads(box.STATE_FILE.read_text())
    assert kept["warnings"] == ["log upload failed, see the unit's journal"]


@pytest.mark.usefixtures("build")
def test_failing_shred_is_reported_and_the_rest_still_done(systemctl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(systemctl.parent / "bin/shred", "#!/bin/sh\nexit 1\n")
    assert end(monkeypatch, SUCCESS) == 1
    assert json.loads(stored("status.json"))["warnings"] == ["shred failed, see the unit's journal"]
    assert systemctl.read_text() == "poweroff --no-block\n"


@pytest.mark.usefixtures("build")
def test_unreadable_configuration_still_ends_the_box(systemctl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box.CONFIG_FILE.write_text("{")
    assert end(monkeypatch, SUCCESS) == 1
    assert files_left() == []
    assert systemctl.read_text() == "poweroff --no-block\n"


def test_shredding_overwrites(tmp_path: Path) -> None:
    secret, witness = tmp_path / "run/token", tmp_path / "witness"
    secret.parent.mkdir()
    secret.write_text("5ec3e7")
    witness.hardlink_to(secret)
    finish.shred(secret.parent)
    assert not secret.exists()
    assert b"5ec3e7" not in witness.read_bytes()
