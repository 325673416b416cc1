"""An `up` that is killed while its instance starts, on the real engine: the next one starts no second beside it."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

from rehearsal import inventory
from rehearsal.region import Region
from rehearsal.setup import Setup
from rehearsal.stacks import Workspace


def test_an_up_that_is_killed_half_way_can_be_run_again(setup: Setup, tmp_path: Path) -> None:
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
            os.killpg(killed.pid, signal.SIGKILL)
            killed.wait()
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
