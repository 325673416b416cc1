"""The cache bucket is made: the next `up` finds its name taken."""

from __future__ import annotations

from rehearsal.cloud.server import Cloud
from rehearsal.stacks import Stack
from tests.boxes import Job
from tests.faults.interrupted_ups import another_foundation, kill_while_making

new_stack = another_foundation


def up_and_kill(job: Job, stack: Stack) -> None:
    kill_while_making(job, stack, "aws:s3/bucket:Bucket", "s3", "GetBucketTagging")


def delete(cloud: Cloud, name: str) -> None:
    cloud.client("s3").delete_bucket(Bucket=name)
