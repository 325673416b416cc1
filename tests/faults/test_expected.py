"""What a fault has to come to is told from what it has not: a wrong value in any place is named."""

from __future__ import annotations

from typing import Any

import pytest

from buildspec.box.status import BuildStatus
from tests.faults.expected import ExpectedStatus

STATUS = BuildStatus(
    runId="dev-i-1",
    instanceId="i-1",
    state="failed",
    phase="build",
    startedAt="2020-01-02T03:04:05+00:00",
    updatedAt="2020-01-02T03:04:05+00:00",
    endedAt=None,
    exitCode=1,
    failingStep="build: make (2): exit code 1",
    lastLines=["one", "3 results of bucket lost"],
    cache={"requests": 3, "hits": 0, "misses": 3, "errors": 0, "writeErrors": 3, "compileSeconds": 1.5, "steps": []},
    images={"app": "sha256:1"},
    phases=[],
    warnings=["late: S3"],
)
LOG = "first line\nsecond line\n"
MET: dict[str, Any] = {
    "state": "failed",
    "phase": "build",
    "exit_code": 1,
    "failing_step": "build: make (2): exit code *",
    "last_lines": ["{writeErrors} results of {name} lost"],
    "warnings": ["late: *"],
    "images": ["app"],
    "cache": {"misses": 3, "errors": 0},
    "log": ["second *"],
    "log_without": ["third *"],
}


def unmet(**other: Any) -> list[str]:
    return ExpectedStatus.of({**MET, **other}).unmet(STATUS, LOG, {"name": "bucket"})


def test_what_is_as_expected() -> None:
    assert unmet() == []


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"state": "succeeded"}, "state: 'failed', and not 'succeeded'"),
        ({"phase": "install"}, "phase: 'build', and not 'install'"),
        ({"exit_code": None}, "exit code: 1, and not None"),
        ({"failing_step": None}, "failing step: 'build: make (2): exit code 1', and not None"),
        ({"failing_step": "build: make"}, "failing step: 'build: make (2): exit code 1', and not 'build: make'"),
        ({"last_lines": ["one", "on"]}, "no last line 'on'"),
        ({"last_lines": ["{misses} results"]}, "no last line '{misses} results'"),
        ({"warnings": []}, "warning 'late: S3'"),
        ({"images": []}, "images: ['app'], and not []"),
        ({"cache": {"misses": 2}}, "cache: {'misses': 3}, and not {'misses': 2}"),
        ({"log": ["third *"]}, "no line 'third *' in the log"),
        ({"log_without": ["second *"]}, "the log says 'second line'"),
    ],
)
def test_what_is_not(other: dict[str, Any], said: str) -> None:
    assert unmet(**other) == [said]


def test_a_key_that_there_is_not() -> None:
    with pytest.raises(TypeError, match="'exitCode'"):
        ExpectedStatus.of({"state": "failed", "exitCode": 1})
