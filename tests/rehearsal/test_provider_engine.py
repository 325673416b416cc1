"""The provider stand-in under the real engine: small programs with their own stack on the rehearsal's cloud."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rehearsal.cloud import REGION
from rehearsal.cloud.backends import DEBIAN_IMAGE_ID
from rehearsal.cloud.server import Cloud
from rehearsal.setup import Setup

CHECKOUT = Path(__file__).resolve().parents[2]

BOX = """
import pulumi
import pulumi_aws as aws

config = pulumi.Config()
vpc = aws.ec2.Vpc("network", cidr_block="10.64.0.0/16")
zone = aws.get_availability_zones(state="available").names[0]
subnet = aws.ec2.Subnet("network", vpc_id=vpc.id, cidr_block="10.64.0.0/20", availability_zone=zone)
group = aws.ec2.SecurityGroup("box", name="box", vpc_id=vpc.id)
bucket = aws.s3.Bucket("bucket", bucket="engine-box", tags={"Vpc": vpc.id})
archive = aws.s3.BucketObjectv2(
    "context", bucket=bucket.id, key="contexts/context", source=pulumi.FileAsset(config.require("context"))
)
instance = aws.ec2.Instance(
    "box",
    ami=aws.ssm.get_parameter(name="/aws/service/debian/release/13/latest/amd64").value,
    instance_type="m7a.large",
    subnet_id=subnet.id,
    vpc_security_group_ids=[group.id],
    instance_initiated_shutdown_behavior="terminate",
    user_data=f"#cloud-config\\nmessage: {config.require('message')}\\n",
    user_data_replace_on_change=True,
    root_block_device=aws.ec2.InstanceRootBlockDeviceArgs(volume_size=30),
    tags={"Name": "box"},
    opts=pulumi.ResourceOptions(delete_before_replace=True, depends_on=[archive]),
)
pulumi.export("instance", instance.id)
pulumi.export("zone", instance.availability_zone)
pulumi.export("address", instance.private_ip)
"""

BUCKET = """
import pulumi
import pulumi_aws as aws

force = pulumi.Config().require_bool("force")
aws.s3.Bucket("bucket", bucket="engine-bucket", force_destroy=force)
"""

SECRET = """
import pulumi
import pulumi_aws as aws

word = pulumi.Config().require_secret("word")
aws.cloudwatch.LogGroup("group", name="/engine/secret", tags={"Word": word})
"""


@dataclass
class Project:
    """A Pulumi project with one stack."""

    folder: Path
    environment: Mapping[str, str]
    settings: dict[str, str] = field(default_factory=dict)

    def program(self, text: str, **settings: str) -> None:
        (self.folder / "__main__.py").write_text(text)
        self.settings |= settings

    def run(self, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        settings = [part for key, value in self.settings.items() for part in ("-c", f"engine:{key}={value}")]
        config = settings if verb in {"up", "preview"} else []
        return self.pulumi(verb, "--json", *config, *arguments)

    def pulumi(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["pulumi", "--non-interactive", *arguments],
            cwd=self.folder,
            env=dict(self.environment),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def up(self, **settings: str) -> dict[str, int]:
        """`pulumi up`; the number of resources by what was done to them, without the stack itself."""
        self.settings |= settings
        return self.changes(self.run("up", "--yes", "--skip-preview"))

    def destroy(self) -> dict[str, int]:
        return self.changes(self.run("destroy", "--yes", "--skip-preview"))

    @staticmethod
    def changes(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
        assert done.returncode == 0, done.stdout + done.stderr
        events = [json.loads(line) for line in done.stdout.splitlines()]
        (summary,) = [event["summaryEvent"] for event in events if "summaryEvent" in event]
        changes: dict[str, int] = summary["resourceChanges"]
        return changes

    def outputs(self) -> dict[str, Any]:
        outputs: dict[str, Any] = json.loads(self.pulumi("stack", "output", "--json").stdout)
        return outputs

    def state(self) -> str:
        return self.pulumi("stack", "export").stdout


@pytest.fixture
def project(cloud: Cloud, tools: Setup, tmp_path: Path) -> Iterator[Project]:
    """An empty project; its stack is destroyed in the end."""
    folder, plugins, state = tmp_path / "project", tmp_path / "bin", tmp_path / "state"
    for directory in (folder, plugins, state):
        directory.mkdir()
    plugin = plugins / "pulumi-resource-aws"
    plugin.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m rehearsal.provider "$@"\n')
    plugin.chmod(0o755)
    settings = {"name": "engine", "runtime": "python", "options": {"refresh": "always"}}
    (folder / "Pulumi.yaml").write_text(json.dumps(settings))
    project = Project(
        folder,
        {
            **cloud.operator_environment(),
            "PATH": os.pathsep.join(
                [str(plugins), str(tools.engine), str(Path(sys.executable).parent), os.environ["PATH"]]
            ),
            "PYTHONPATH": str(CHECKOUT),
            "HOME": str(tmp_path),
            "PULUMI_HOME": str(tmp_path / "home"),
            "PULUMI_BACKEND_URL": f"file://{state}",
            "PULUMI_CONFIG_PASSPHRASE": "tests",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
        },
    )
    assert project.pulumi("stack", "init", "test").returncode == 0
    yield project
    project.run("destroy", "--yes", "--skip-preview")


def live_instances(cloud: Cloud) -> set[str]:
    pages = cloud.client("ec2").get_paginator("describe_instances").paginate()
    instances = [item for page in pages for group in page["Reservations"] for item in group["Instances"]]
    return {instance["InstanceId"] for instance in instances if instance["State"]["Name"] != "terminated"}


def test_the_life_of_a_box(project: Project, cloud: Cloud, tmp_path: Path) -> None:
    context = tmp_path / "context"
    context.write_text("one")
    project.program(BOX, context=str(context), message="hello")

    preview = project.run("preview")
    assert preview.returncode == 0, preview.stdout + preview.stderr
    assert json.loads(preview.stdout)["changeSummary"] == {"create": 7}
    assert live_instances(cloud) == set()

    assert project.up() == {"create": 7}
    first = project.outputs()
    assert live_instances(cloud) == {first["instance"]}
    assert first["zone"] == f"{REGION}a"
    assert first["address"].startswith("10.64.")
    described = cloud.client("ec2").describe_instances(InstanceIds=[first["instance"]])
    assert described["Reservations"][0]["Instances"][0]["ImageId"] == DEBIAN_IMAGE_ID
    assert project.up() == {"same": 7}

    cloud.set_instance_state(first["instance"], "terminated")
    assert project.up() == {"create": 1, "same": 6}
    second = project.outputs()
    assert live_instances(cloud) == {second["instance"]}
    assert second["instance"] != first["instance"]

    context.write_text("two")
    assert project.up() == {"update": 1, "same": 6}
    content = cloud.client("s3").get_object(Bucket="engine-box", Key="contexts/context")["Body"].read()
    assert content == b"two"

    assert project.up(message="bye") == {"replace": 1, "same": 6}
    third = project.outputs()
    assert live_instances(cloud) == {third["instance"]}
    assert third["instance"] != second["instance"]

    assert project.destroy() == {"delete": 7}
    ec2 = cloud.client("ec2")
    assert live_instances(cloud) == set()
    assert ec2.describe_vpcs(Filters=[{"Name": "cidr", "Values": ["10.64.0.0/16"]}])["Vpcs"] == []
    assert [group["GroupName"] for group in ec2.describe_security_groups()["SecurityGroups"]] == ["default"]
    assert "engine-box" not in [bucket["Name"] for bucket in cloud.client("s3").list_buckets()["Buckets"]]
    assert json.loads(project.state())["deployment"].get("resources", []) == []


def test_a_bucket_with_objects_stops_a_destroy(project: Project, cloud: Cloud) -> None:
    project.program(BUCKET, force="false")
    assert project.up() == {"create": 2}
    cloud.client("s3").put_object(Bucket="engine-bucket", Key="cache/known", Body=b"known")
    refused = project.run("destroy", "--yes", "--skip-preview")
    assert refused.returncode != 0
    assert "BucketNotEmpty" in refused.stdout

    assert project.up(force="true") == {"same": 1, "update": 1}
    assert project.destroy() == {"delete": 2}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            'aws.ec2.Vpc("vpc", cidr_block="10.0.0.0/16", instance_tenancy="dedicated")',
            "aws:ec2/vpc:Vpc: the stand-in does not implement the property 'instanceTenancy'",
        ),
        (
            'aws.ec2.NatGateway("gateway", subnet_id="subnet-0")',
            "the stand-in does not implement the resource type aws:ec2/natGateway:NatGateway",
        ),
        (
            'aws.ec2.get_ami(owners=["self"])',
            "the stand-in does not implement the function aws:ec2/getAmi:getAmi",
        ),
    ],
    ids=["property", "type", "function"],
)
def test_what_is_not_implemented_fails_the_preview(project: Project, line: str, message: str) -> None:
    project.program(f"import pulumi_aws as aws\n{line}\n")
    done = project.pulumi("preview")
    assert done.returncode != 0
    assert message in done.stdout + done.stderr
    assert "server.py" not in done.stdout + done.stderr, "a traceback of the provider"


def test_a_secret_stays_one_in_the_state(project: Project, cloud: Cloud) -> None:
    assert project.pulumi("config", "set", "--secret", "engine:word", "marzipan").returncode == 0
    project.program(SECRET)
    assert project.up() == {"create": 2}
    arn = cloud.client("logs").describe_log_groups(logGroupNamePrefix="/engine/secret")["logGroups"][0]["arn"]
    tags = cloud.client("logs").list_tags_for_resource(resourceArn=arn.removesuffix(":*"))["tags"]
    assert tags == {"Word": "marzipan"}
    assert project.up() == {"same": 2}  # refreshed, so that the state now holds what was read
    assert "marzipan" not in project.state()
    assert "marzipan" in project.pulumi("stack", "export", "--show-secrets").stdout
