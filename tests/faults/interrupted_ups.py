"""An `up` that is killed while the engine makes one thing: AWS has it, and Pulumi's state has not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from rehearsal.console import StepError
from rehearsal.stacks import Stack
from tests.boxes import BOX, Job

FOUNDATION = "second"
"""A foundation beside the one that the kept box is on."""


def another_foundation(job: Job) -> Stack:
    return job.workspace.stack(FOUNDATION, {"layer": "foundation", "protect": False})


def over_the_foundation(job: Job) -> Stack:
    return job.workspace.stack("killed", BOX)


def start(stack: Stack) -> subprocess.Popen[bytes]:
    return stack.start("up", "--yes", "--skip-preview")


def kill(command: subprocess.Popen[bytes]) -> None:
    """Engine, program and providers at once, as when the machine goes away."""
    os.killpg(command.pid, signal.SIGKILL)
    command.wait()


@dataclass(frozen=True)
class State:
    """Of a stack whose `up` runs: the types of what is being made, and the URNs of what is."""

    being_made: frozenset[str]
    made: frozenset[str]

    @classmethod
    def of(cls, stack: Stack) -> State | None:
        """None when the file is just being written: it has no end then."""
        try:
            deployment = json.loads(stack.export())["deployment"]
        except StepError as error:
            if not any("EOF" in line for line in error.last_lines):
                raise
            return None
        return cls(
            frozenset(operation["resource"]["type"] for operation in deployment.get("pending_operations", [])),
            frozenset(resource["urn"] for resource in deployment.get("resources", [])),
        )


def kill_while_making(job: Job, stack: Stack, looks: Mapping[str, tuple[str, str]]) -> None:
    """Kill an `up` that looks at what it made of some types, once all else that it made is stored.

    Args:
        looks: each type to the service and the operation by which its provider looks.
    """
    with ExitStack() as slow:
        faults = job.region.cloud.faults
        looking = [slow.enter_context(faults.slow(600.0, *operation)) for operation in looks.values()]
        command = start(stack)
        before, now = None, State.of(stack)
        while now is None or now != before or now.being_made != looks.keys() or not all(one.met for one in looking):
            assert command.poll() is None
            time.sleep(1)
            before, now = now, State.of(stack)
        kill(command)
