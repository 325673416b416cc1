"""An `up` that is killed half way, on the real engine: what the next one says, and that nothing stays behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.naming import PROJECT
from rehearsal import inventory
from rehearsal.cloud.server import Cloud
from rehearsal.region import Region
from rehearsal.setup import Setup
from rehearsal.stacks import Stack, Workspace


def kill(command: subprocess.Popen[bytes]) -> None:
    os.killpg(command.pid, signal.SIGKILL)
    command.wait()


def test_a_box_that_is_killed_half_way_is_not_doubled(setup: Setup, tmp_path: Path) -> None:
    with Region(tmp_path / "region", rootfs=None) as region:
        workspace = Workspace(tmp_path / "workspace", setup.engine, region.environment())
        workspace.stack("foundation", {"layer": "foundation"}).up()
        with_foundation = inventory.take(region.cloud)
        box = workspace.stack("dev", {"layer": "box", "targets": ["cache-probe"]})

        def instances() -> set[str]:
            return {name for kind, name in inventory.take(region.cloud) if kind == "instance"}

        # The provider looks at what it has launched before it answers: time enough to kill it in.
        with region.cloud.faults.slow(5.0, "ec2", "DescribeInstances"):
            killed = box.start("up", "--yes", "--skip-preview")
            while "ec2:RunInstances" not in (region.cloud.directory / "requests.jsonl").read_text():
                assert killed.poll() is None
                time.sleep(0.05)
            kill(killed)
        (lost,) = instances()

        locked = box.attempt("up", "--yes", "--skip-preview")
        assert locked.returncode != 0
        assert "pulumi cancel" in locked.stderr
        assert workspace.attempt("cancel", "--yes", "--stack", "dev").returncode == 0
        refused = box.attempt("up", "--yes", "--skip-preview")
        assert refused.returncode != 0
        said = refused.stdout + refused.stderr
        assert f"box {lost} of stack dev is running, launched by an `up` that was interrupted" in said
        assert "Traceback" not in said
        assert instances() == {lost}

        (command,) = re.findall(r"`aws ec2 terminate-instances --instance-ids (\S+)`", said)
        region.cloud.client("ec2").terminate_instances(InstanceIds=[command])
        box.up()
        (new,) = instances()
        assert new == box.outputs()["instanceId"] != lost
        box.destroy()
        assert inventory.take(region.cloud) == with_foundation


def being_made(stack: Stack) -> set[str]:
    pending = json.loads(stack.export())["deployment"].get("pending_operations", [])
    return {operation["resource"]["type"] for operation in pending}


def up_and_kill(region: Region, foundation: Stack, kind: str, service: str, operation: str) -> None:
    """Kill an `up` that looks at what it has made of a type, and has stored everything that it made beside it."""
    journal = region.cloud.directory / "requests.jsonl"
    with region.cloud.faults.slow(50.0, service, operation) as looking:
        killed = foundation.start("up", "--yes", "--skip-preview")
        size = -1
        while not looking.met or journal.stat().st_size != size or being_made(foundation) != {kind}:
            assert killed.poll() is None
            size = journal.stat().st_size
            time.sleep(2)
        kill(killed)


def delete_bucket(cloud: Cloud, name: str) -> Any:
    return cloud.client("s3").delete_bucket(Bucket=name)


def delete_role(cloud: Cloud, name: str) -> Any:
    return cloud.client("iam").delete_role(RoleName=name)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "service", "operation", "words", "delete"),
    [
        ("aws:s3/bucket:Bucket", "s3", "GetBucketTagging", "BucketAlreadyExists", delete_bucket),
        ("aws:iam/role:Role", "iam", "GetRole", "EntityAlreadyExists", delete_role),
    ],
    ids=["bucket", "role"],
)
def test_what_a_killed_foundation_has_made_is_named_and_can_be_deleted(
    setup: Setup,
    tmp_path: Path,
    kind: str,
    service: str,
    operation: str,
    words: str,
    delete: Callable[[Cloud, str], Any],
) -> None:
    """As docs/runbook.md has it: the next `up` names it, and makes it again once it is deleted."""
    with Region(tmp_path / "region", rootfs=None) as region:
        empty = inventory.take(region.cloud)
        workspace = Workspace(tmp_path / "workspace", setup.engine, region.environment())
        foundation = workspace.stack("foundation", {"layer": "foundation", "protect": False})
        up_and_kill(region, foundation, kind, service, operation)
        stored = {resource["id"] for resource in foundation.resources()}
        lost = {name for what, name in inventory.take(region.cloud) - empty if what in ("bucket", "role")} - stored
        assert lost

        assert workspace.attempt("cancel", "--yes", "--stack", "foundation").returncode == 0
        refused = foundation.attempt("up", "--yes", "--skip-preview")
        assert refused.returncode != 0
        said = refused.stdout + refused.stderr
        assert words in said
        assert [name for name in lost if name not in said] == []
        assert "Traceback" not in said

        for name in lost:
            delete(region.cloud, name)
        foundation.up()
        foundation.destroy()
        assert inventory.take(region.cloud) == empty


@pytest.mark.slow
def test_a_network_that_a_killed_foundation_has_made_is_found_by_its_tags(setup: Setup, tmp_path: Path) -> None:
    """It has no name that the next `up` could find taken."""
    with Region(tmp_path / "region", rootfs=None) as region:
        empty = inventory.take(region.cloud)
        workspace = Workspace(tmp_path / "workspace", setup.engine, region.environment())
        foundation = workspace.stack("foundation", {"layer": "foundation", "protect": False})
        up_and_kill(region, foundation, "aws:ec2/vpc:Vpc", "ec2", "DescribeVpcs")
        assert workspace.attempt("cancel", "--yes", "--stack", "foundation").returncode == 0
        foundation.up()
        ec2 = region.cloud.client("ec2")
        ours = [{"Name": "tag:Project", "Values": [PROJECT]}, {"Name": "tag:Stack", "Values": ["foundation"]}]
        found = {vpc["VpcId"] for vpc in ec2.describe_vpcs(Filters=ours)["Vpcs"]}
        (lost,) = found - {foundation.outputs()["vpcId"]}
        ec2.delete_vpc(VpcId=lost)
        foundation.destroy()
        assert inventory.take(region.cloud) == empty
