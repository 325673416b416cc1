"""Faults before and in the middle of a build, on a box that stays: a folder of `running` each.

What happens is in its `fault.py`, what it has to come to in its `expected.toml`. Whatever it is, no secret is left, and
nothing runs any more.
"""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox, until
from tests.faults.builds import BUILDER, UNIT, docker_is, slow_compile
from tests.faults.expected import FILE, ExpectedStatus, cases

KIND = "running"
SLOW = {"clock_wrong", "store_out_of_reach", "store_slow"}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow if case in SLOW else ()) for case in cases(KIND)]
)
def test_a_fault_of_a_running_box(kept: KeptBox, case: str) -> None:
    content = tomllib.loads((Path(__file__).parent / KIND / case / FILE).read_text())
    expected = ExpectedStatus.of(content)
    status: BuildStatus = import_module(f"tests.faults.{KIND}.{case}.fault").build(kept)
    log = kept.job.log_of(kept.outputs) if expected.log or expected.log_without else ""
    assert expected.unmet(status, log, {**kept.job.foundation.outputs(), **kept.job.box.outputs()}) == []
    assert kept.secrets_left() == []
    assert kept.run("systemctl", "show", "--property=ControlGroup", "--value", UNIT).strip() == ""
    if docker_is(kept, "active"):
        assert kept.run("docker", "ps", "--format", "{{.Names}}").split() in ([BUILDER], [])
        until("no step runs any more", lambda: steps_running(kept) == [])


def steps_running(kept: KeptBox) -> list[str]:
    """The processes in the builder beside BuildKit's own."""
    done = kept.machine.execute(["docker", "top", BUILDER, "-o", "comm"])
    return [name for name in done.stdout.split()[1:] if name not in ("docker-init", "buildkitd")]


def test_the_box_builds_again_once_all_is_mended(kept: KeptBox) -> None:
    with slow_compile(kept):
        status = kept.build()
    assert (status["state"], status["exitCode"], status["failingStep"]) == ("succeeded", 0, None)
