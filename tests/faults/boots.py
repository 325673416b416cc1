"""Boxes of their own, each launched with one thing changed."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from buildspec.box import config as box
from rehearsal.builds import BuildOutputs
from tests.boxes import Job
from tests.builds import OVERRIDE

NO_MIRROR = "http://127.0.0.1:9/debian"
CONSOLE_FILES = ("cloud-init-output.log", "cloud-init.log")

Document = dict[str, Any]
"""The user data, or the box's configuration in it."""


def configured(change: Callable[[Document], None]) -> Callable[[Document], None]:
    """A change of the box's configuration file, as one of the user data."""

    def apply(user_data: Document) -> None:
        (file,) = (file for file in user_data["write_files"] if file["path"] == str(box.CONFIG_FILE))
        config = json.loads(file["content"])
        change(config)
        file["content"] = json.dumps(config)

    return apply


def without_packages(user_data: Document, *packages: str) -> None:
    """The packages are not on the box, as on Debian's image, and no mirror answers."""
    # The rehearsal's image has them, and sources that cloud-init keeps.
    user_data["bootcmd"].append(["dpkg", "--purge", "--force-depends", *packages])
    places = ["/etc/apt/sources.list.d", "/var/lib/apt/lists"]
    user_data["bootcmd"].append(["find", *places, "-type", "f", "-delete"])
    user_data["bootcmd"].append(["rm", "--force", "/etc/apt/sources.list"])
    for kind in ("primary", "security"):
        user_data["apt"][kind] = [{"arches": ["default"], "uri": NO_MIRROR}]


def with_a_bake_that_does_not_end(user_data: Document) -> None:
    """What comes while the box builds comes in the bake, however fast the machine is."""
    endless = 'target "cache-probe" {\n  dockerfile-inline = "FROM debian\\nRUN sleep 3600\\n"\n}\n'
    user_data["write_files"].append({"path": OVERRIDE, "content": endless})


@dataclass(frozen=True)
class Box:
    """A box that was launched for a case."""

    outputs: BuildOutputs
    address: str

    def state(self, job: Job) -> str:
        """What EC2 calls its instance."""
        found = job.region.cloud.client("ec2").describe_instances(InstanceIds=[self.outputs.instance_id])
        state: str = found["Reservations"][0]["Instances"][0]["State"]["Name"]
        return state

    def root(self, job: Job) -> Path:
        """Its files, also when it has ended."""
        return job.region.machines[self.outputs.instance_id].root

    def console(self, job: Job) -> list[str]:
        """What cloud-init has said."""
        files = [self.root(job) / "var/log" / name for name in CONSOLE_FILES]
        return [line for file in files if file.exists() for line in file.read_text(errors="replace").splitlines()]


def launch(
    job: Job, change: Callable[[Document], None] | None = None, spoil: Callable[[str], str] | None = None
) -> Box:
    """Start a box like the stack's last one, but for a change of its user data, or of their text."""
    ec2 = job.region.cloud.client("ec2")
    like = BuildOutputs.of(job.box.outputs())
    (instance,) = ec2.describe_instances(InstanceIds=[like.instance_id])["Reservations"][0]["Instances"]
    attribute = ec2.describe_instance_attribute(InstanceId=like.instance_id, Attribute="userData")
    document = yaml.safe_load(base64.b64decode(attribute["UserData"]["Value"]))
    configured(lambda config: config.update(keepBox=False))(document)
    if change is not None:
        change(document)
    user_data = "#cloud-config\n" + yaml.safe_dump(document, sort_keys=False)
    started = ec2.run_instances(
        ImageId=instance["ImageId"],
        InstanceType=instance["InstanceType"],
        MinCount=1,
        MaxCount=1,
        SubnetId=job.foundation.outputs()["subnetIds"][instance["Placement"]["AvailabilityZone"]],
        SecurityGroupIds=[group["GroupId"] for group in instance["SecurityGroups"]],
        IamInstanceProfile={"Name": job.foundation.outputs()["boxInstanceProfile"]},
        MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        InstanceInitiatedShutdownBehavior="terminate",
        UserData=user_data if spoil is None else spoil(user_data),
    )
    (new,) = started["Instances"]
    instance_id = new["InstanceId"]
    stack = like.status_key.split("/")[1]
    keys = [f"builds/{stack}/{instance_id}/{name}" for name in ("status.json", "build.log")]
    return Box(BuildOutputs(instance_id, like.bucket, *keys), new["PrivateIpAddress"])
