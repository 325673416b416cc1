"""The cache bucket and the roles are made: the next `up` finds their names taken."""

from __future__ import annotations

from rehearsal.cloud.server import Cloud
from rehearsal.stacks import Stack
from tests.boxes import Job
from tests.faults.interrupted_ups import another_foundation, kill_while_making

new_stack = another_foundation


def up_and_kill(job: Job, stack: Stack) -> None:
    looks = {"aws:s3/bucket:Bucket": ("s3", "GetBucketTagging"), "aws:iam/role:Role": ("iam", "GetRole")}
    kill_while_making(job, stack, looks)


def delete(cloud: Cloud, kind: str, name: str) -> None:
    if kind == "bucket":
        cloud.client("s3").delete_bucket(Bucket=name)
    else:
        cloud.client("iam").delete_role(RoleName=name)
