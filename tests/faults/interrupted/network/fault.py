"""The VPC is made. It has no name that the next `up` could find taken, so that makes another one."""

from __future__ import annotations

from infra.naming import PROJECT
from rehearsal.cloud.server import Cloud
from rehearsal.stacks import Stack
from tests.boxes import Job
from tests.faults.interrupted_ups import FOUNDATION, another_foundation, kill_while_making

new_stack = another_foundation


def up_and_kill(job: Job, stack: Stack) -> None:
    kill_while_making(job, stack, {"aws:ec2/vpc:Vpc": ("ec2", "DescribeVpcs")})


def delete(cloud: Cloud, _: str, name: str) -> None:
    """As docs/runbook.md finds it."""
    ec2 = cloud.client("ec2")
    ours = [{"Name": "tag:Project", "Values": [PROJECT]}, {"Name": "tag:Stack", "Values": [FOUNDATION]}]
    tagged = {vpc["VpcId"] for vpc in ec2.describe_vpcs(Filters=ours)["Vpcs"]}
    (whole,) = tagged - {name}
    assert tagged == {name, whole}
    ec2.delete_vpc(VpcId=name)
