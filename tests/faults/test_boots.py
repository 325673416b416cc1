"""Boxes that do not get to their build as they should.

They are launched through the EC2 API itself, as the program launches them, with one thing changed each.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from buildspec.box.status import BuildStatus
from rehearsal import leaks
from rehearsal.builds import BuildOutputs, read_status
from rehearsal.cloud.imds import MetadataService
from tests.booted.conftest import Job, KeptBox
from tests.booted.faults import until

if TYPE_CHECKING:
    from wsgiref.types import StartResponse

CONFIG_FILE = "/etc/rocm-build-box/box.json"
NO_MIRROR = "http://127.0.0.1:9/debian"
LATE_SECONDS = 25.0
"""From the launch; the box asks for the first time a few seconds after it."""

Document = dict[str, Any]


def configured(change: Callable[[Document], None]) -> Callable[[Document], None]:
    """A change of the box's configuration file in the user data."""

    def apply(document: Document) -> None:
        (file,) = (file for file in document["write_files"] if file["path"] == CONFIG_FILE)
        config = json.loads(file["content"])
        change(config)
        file["content"] = json.dumps(config)

    return apply


def missing_context(config: Document) -> None:
    config["context"]["key"] = "contexts/none.tar.gz"


def wrong_context(config: Document) -> None:
    config["context"]["sha256"] = "0" * 64


def without(*packages: str) -> Callable[[Document], None]:
    """The packages are not on the box, as on Debian's image, and no mirror answers."""

    def apply(document: Document) -> None:
        # The rehearsal's image has them, and sources that cloud-init keeps.
        document["bootcmd"].append(["dpkg", "--purge", "--force-depends", *packages])
        places = ["/etc/apt/sources.list.d", "/var/lib/apt/lists"]
        document["bootcmd"].append(["find", *places, "-type", "f", "-delete"])
        document["bootcmd"].append(["rm", "--force", "/etc/apt/sources.list"])
        for kind in ("primary", "security"):
            document["apt"][kind] = [{"arches": ["default"], "uri": NO_MIRROR}]

    return apply


def nothing(_: Document) -> None:
    """As it is."""


CASES: dict[str, Callable[[Document], None]] = {
    "missing context": configured(missing_context),
    "wrong context": configured(wrong_context),
    "no docker": without("docker.io"),
    "no boto3": without("python3-boto3"),
    "no sense": nothing,
    "late metadata": nothing,
}


@dataclass
class Boots:
    """The boxes of all cases, which boot side by side."""

    job: Job
    outputs: dict[str, BuildOutputs]

    def state(self, case: str) -> str:
        ec2 = self.job.region.cloud.client("ec2")
        found = ec2.describe_instances(InstanceIds=[self.outputs[case].instance_id])
        state: str = found["Reservations"][0]["Instances"][0]["State"]["Name"]
        return state

    def wait_for_end(self, case: str) -> BuildStatus | None:
        """The status that the box left when it has ended itself."""
        until(f"the end of the box with {case}", lambda: self.state(case) == "terminated", seconds=300)
        return read_status(self.job.region, self.outputs[case])

    def console(self, case: str) -> str:
        machine = self.job.region.machines[self.outputs[case].instance_id]
        return (machine.root / "var/log/cloud-init-output.log").read_text(errors="replace")


def user_data(ec2: Any, like: str, case: str) -> str:
    attribute = ec2.describe_instance_attribute(InstanceId=like, Attribute="userData")
    text = base64.b64decode(attribute["UserData"]["Value"]).decode()
    document = yaml.safe_load(text)
    configured(lambda config: config.update(keepBox=False))(document)
    CASES[case](document)
    changed = "#cloud-config\n" + yaml.safe_dump(document, sort_keys=False)
    return changed.replace("runcmd:", "runcmd: ]", 1) if case == "no sense" else changed


def launch(job: Job, case: str) -> tuple[BuildOutputs, str]:
    """Start a box like the stack's last one; return its outputs and its address."""
    ec2 = job.region.cloud.client("ec2")
    like = job.builds[-1].outputs
    (instance,) = ec2.describe_instances(InstanceIds=[like.instance_id])["Reservations"][0]["Instances"]
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
        UserData=user_data(ec2, like.instance_id, case),
    )
    (new,) = started["Instances"]
    instance_id = new["InstanceId"]
    stack = like.status_key.split("/")[1]
    keys = [f"builds/{stack}/{instance_id}/{name}" for name in ("status.json", "build.log")]
    return BuildOutputs(instance_id, like.bucket, *keys), new["PrivateIpAddress"]


@pytest.fixture(scope="module")
def boots(kept: KeptBox) -> Iterator[Boots]:
    job = kept.job
    late: dict[str, float] = {}
    answer = MetadataService.__call__

    def answer_late(self: MetadataService, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        if time.monotonic() < late.get(environ["REMOTE_ADDR"], 0.0):
            raise ConnectionResetError
        return answer(self, environ, start)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MetadataService, "__call__", answer_late)
        boots = Boots(job, {})
        for case in CASES:
            boots.outputs[case], address = launch(job, case)
            if case == "late metadata":
                late[address] = time.monotonic() + LATE_SECONDS
        yield boots
    ids = [outputs.instance_id for outputs in boots.outputs.values()]
    job.region.cloud.client("ec2").terminate_instances(InstanceIds=ids)
    until("the boxes' end", lambda: not any(job.region.machines[instance_id].plugged for instance_id in ids))


def ended(status: BuildStatus | None) -> tuple[str, str, int | None, str | None]:
    assert status is not None
    return status["state"], status["phase"], status["exitCode"], status["failingStep"]


FETCH_CONTEXT_FAILED = ("failed", "fetch-context", 1, "fetch-context")


def test_a_context_that_is_not_there(boots: Boots) -> None:
    status = boots.wait_for_end("missing context")
    assert ended(status) == FETCH_CONTEXT_FAILED
    assert status is not None
    # The box may not list the bucket, so S3 does not tell it that the object is missing.
    assert any("AccessDenied" in line and "s3:ListBucket" in line for line in status["lastLines"])


def test_another_context_than_the_one_that_was_sent(boots: Boots) -> None:
    status = boots.wait_for_end("wrong context")
    assert ended(status) == FETCH_CONTEXT_FAILED
    assert status is not None
    sent = boots.job.box.outputs()["contextSha256"]
    assert status["lastLines"] == [
        f"the build context's SHA-256 is {sent}, the user data names {'0' * 64}; run pulumi up again"
    ]
    machine = boots.job.region.machines[boots.outputs["wrong context"].instance_id]
    assert not (machine.root / "opt/rocm-build-box/buildspec").exists()


def test_no_docker_because_no_package_was_installed(boots: Boots) -> None:
    status = boots.wait_for_end("no docker")
    assert ended(status) == FETCH_CONTEXT_FAILED
    assert status is not None
    assert any("docker.service" in line for line in status["lastLines"])


def test_no_boto3_because_no_package_was_installed(boots: Boots) -> None:
    """Without it nothing can be stored: the box ends, and its console has the reason."""
    assert boots.wait_for_end("no boto3") is None
    console = boots.console("no boto3")
    assert "fetch-context: ModuleNotFoundError: No module named 'boto3'" in console
    assert "fetch-context: no S3 client, the status cannot be stored" in console


def test_user_data_that_does_not_parse(boots: Boots) -> None:
    """cloud-init takes nothing of it, not even the deadline: the box stays, and has been given nothing."""
    machine = boots.job.region.wait_for_machine(boots.outputs["no sense"].instance_id)
    until("cloud-init's end", lambda: machine.execute(["test", "-e", "/run/cloud-init/result.json"]).returncode == 0)
    assert boots.state("no sense") == "running"
    assert read_status(boots.job.region, boots.outputs["no sense"]) is None
    assert machine.execute(["test", "-e", CONFIG_FILE]).returncode == 1
    assert "Failed loading yaml blob" in machine.execute(["cat", "/var/log/cloud-init.log"]).stdout


def test_a_metadata_service_that_is_late(boots: Boots) -> None:
    outputs = boots.outputs["late metadata"]
    until("the build's begin", lambda: read_status(boots.job.region, outputs) is not None)
    status = read_status(boots.job.region, outputs)
    assert status is not None
    assert status["state"] == "running"


@pytest.mark.parametrize("case", ["missing context", "wrong context", "no docker"])
def test_no_secret_is_left(boots: Boots, case: str) -> None:
    boots.wait_for_end(case)
    machine = boots.job.region.machines[boots.outputs[case].instance_id]
    issued = leaks.issued_secrets(boots.job.region)
    assert leaks.search({"journal": leaks.journal(machine.root / "var/log/journal")}, issued) == set()
