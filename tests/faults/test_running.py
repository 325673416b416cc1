"""Faults before and in the middle of a build, on a box that stays: a folder of `running` each.

What happens is in its `fault.py`, what it has to come to in its `expected.toml`. Whatever it is, no secret is left, and
nothing runs any more.
"""

from __future__ import annotations

from importlib import import_module

import pytest

from buildspec.box.status import BuildStatus
from tests.boxes import BUILDER, UNIT, KeptBox, until
from tests.builds import docker_is, slow_compile, steps_running
from tests.faults.expected import ExpectedStatus, cases, expected

KIND = "running"
SLOW = {"store_out_of_reach", "store_slow"}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow if case in SLOW else ()) for case in cases(KIND)]
)
def test_a_fault_of_a_running_box(kept: KeptBox, case: str) -> None:
    wanted = ExpectedStatus.of(expected(KIND, case))
    status: BuildStatus = import_module(f"tests.faults.{KIND}.{case}.fault").build(kept)
    log = kept.job.log_of(kept.outputs) if wanted.log or wanted.log_without else ""
    assert wanted.unmet(status, log, {**kept.job.foundation.outputs(), **kept.job.box.outputs()}) == []
    assert kept.secrets_left() == []
    assert kept.run("systemctl", "show", "--property=ControlGroup", "--value", UNIT).strip() == ""
    if docker_is(kept, "active"):
        running = kept.run("docker", "ps", "--format", "{{.Names}}").split()
        assert running in ([BUILDER], [])
        if running:
            until("no step runs any more", lambda: steps_running(kept) == [])


def test_the_box_builds_again_once_all_is_mended(kept: KeptBox) -> None:
    with slow_compile(kept):
        status = kept.build()
    assert (status["state"], status["exitCode"], status["failingStep"]) == ("succeeded", 0, None)
