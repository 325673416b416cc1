"""The instance is launched; the provider looks at it before it tells the engine."""

from __future__ import annotations

import time

from rehearsal.cloud.server import Cloud
from rehearsal.stacks import Stack
from tests.boxes import Job
from tests.faults.interrupted_ups import kill, over_the_foundation, start

new_stack = over_the_foundation


def up_and_kill(job: Job, stack: Stack) -> None:
    before = len(job.requests())
    with job.region.cloud.faults.slow(5.0, "ec2", "DescribeInstances"):
        command = start(stack)
        while "ec2:RunInstances" not in {request["action"] for request in job.requests()[before:]}:
            assert command.poll() is None
            time.sleep(0.05)
        kill(command)


def delete(cloud: Cloud, _: str, name: str) -> None:
    cloud.client("ec2").terminate_instances(InstanceIds=[name])
