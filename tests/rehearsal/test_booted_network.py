"""A booted box and the state of EC2: what it reaches changes with it, and it ends with whoever booted it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rehearsal.cloud.backends import DEBIAN_IMAGE_ID
from rehearsal.network import remove_namespaces
from rehearsal.region import Region
from tests.boxes import until

_S3, _STS = "s3.us-east-1.amazonaws.com", "sts.us-east-1.amazonaws.com"
# A box in which a name does not resolve has no answer either, but is not what this is about: that raises.
_CONNECT = """
import socket, sys
address = socket.gethostbyname(sys.argv[1])
try:
    socket.create_connection((address, int(sys.argv[2])), timeout=2).close()
except TimeoutError:
    sys.exit(3)
"""


class Place:
    """A VPC as the foundation makes it, and a booted instance in it."""

    def __init__(self, region: Region, rootfs: Path) -> None:
        sources = (rootfs / "etc/apt/sources.list").read_text()
        self.mirror = sources.partition("http://")[2].partition("/")[0]
        """A host that is neither AWS nor this machine, and that answers on port 80."""
        ec2: Any = region.cloud.client("ec2")
        self.ec2 = ec2
        self.region = region
        self.vpc = ec2.create_vpc(CidrBlock="10.64.0.0/16")["Vpc"]["VpcId"]
        self.gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        ec2.attach_internet_gateway(InternetGatewayId=self.gateway, VpcId=self.vpc)
        self.subnet = ec2.create_subnet(VpcId=self.vpc, CidrBlock="10.64.16.0/20", AvailabilityZone="us-east-1a")[
            "Subnet"
        ]["SubnetId"]
        ec2.modify_subnet_attribute(SubnetId=self.subnet, MapPublicIpOnLaunch={"Value": True})
        self.table = ec2.create_route_table(VpcId=self.vpc)["RouteTable"]["RouteTableId"]
        ec2.associate_route_table(RouteTableId=self.table, SubnetId=self.subnet)
        self.group = ec2.create_security_group(GroupName="box", Description="box", VpcId=self.vpc)["GroupId"]
        launched = ec2.run_instances(
            ImageId=DEBIAN_IMAGE_ID,
            InstanceType="m7a.large",
            MinCount=1,
            MaxCount=1,
            SubnetId=self.subnet,
            SecurityGroupIds=[self.group],
            MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        )
        self.machine = region.wait_for_machine(launched["Instances"][0]["InstanceId"])

    def reached(self) -> set[str]:
        # The region looks every 0.3 s.
        time.sleep(1)
        self.region.check()
        found = set()
        for name, port in ((_S3, 443), (_STS, 443), (self.mirror, 80)):
            done = self.machine.execute(["python3", "-c", _CONNECT, name, str(port)])
            assert done.returncode in (0, 3), done.stderr
            if done.returncode == 0:
                found.add(name)
        return found

    def becomes(self, expected: set[str]) -> None:
        until(f"{expected}", lambda: self.reached() == expected)


@pytest.fixture(scope="module")
def place(rootfs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with Region(tmp_path_factory.mktemp("region"), rootfs) as region:
        yield Place(region, rootfs)


def test_a_box_reaches_what_ec2_s_state_lets_it(place: Place) -> None:
    ec2 = place.ec2
    place.becomes(set())
    endpoint = ec2.create_vpc_endpoint(
        VpcId=place.vpc,
        ServiceName="com.amazonaws.us-east-1.s3",
        VpcEndpointType="Gateway",
        RouteTableIds=[place.table],
    )["VpcEndpoint"]["VpcEndpointId"]
    place.becomes({_S3})
    route = {"RouteTableId": place.table, "DestinationCidrBlock": "0.0.0.0/0"}
    ec2.create_route(**route, GatewayId=place.gateway)
    place.becomes({_S3, _STS, place.mirror})
    ec2.delete_vpc_endpoints(VpcEndpointIds=[endpoint])
    place.becomes({_S3, _STS, place.mirror})
    everything = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    https = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    ec2.authorize_security_group_egress(GroupId=place.group, IpPermissions=[https])
    ec2.revoke_security_group_egress(GroupId=place.group, IpPermissions=[everything])
    place.becomes({_S3, _STS})
    ec2.delete_route(**route)
    place.becomes(set())


_STARTER = """
import sys, time
from pathlib import Path
from rehearsal.network import remove_namespaces
from rehearsal.region import Region
from tests.rehearsal.test_booted_network import Place
with Region(Path(sys.argv[1]), Path(sys.argv[2])) as region:
    place = Place(region, Path(sys.argv[2]))
    print(place.machine.leader(), flush=True)
    time.sleep(600)
"""


def test_a_box_does_not_outlive_a_starter_that_is_killed(rootfs: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _STARTER, str(tmp_path), str(rootfs)]
    starter = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    leader = int(starter.stdout.readline())
    os.kill(leader, 0)
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    starter.stdout.close()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{leader}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    # The next region in the directory would clear its namespaces away; there is none.
    remove_namespaces(f"rbb-{Region(tmp_path, rootfs)._name}")
