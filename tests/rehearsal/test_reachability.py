"""What EC2's state lets an instance reach: derived from what moto describes, one thing taken away at a time."""

from __future__ import annotations

import secrets
from typing import Any

import pytest

from rehearsal import reachability
from rehearsal.cloud.backends import DEBIAN_IMAGE_ID
from rehearsal.cloud.server import Cloud
from rehearsal.reachability import Egress, Reach
from tests.rehearsal.conftest import ZONE

HTTPS = Egress("tcp", (443, 443), "0.0.0.0/0")


class Place:
    """A VPC with a way out, the S3 endpoint and an instance."""

    def __init__(self, cloud: Cloud) -> None:
        self.ec2: Any = cloud.client("ec2")
        block = f"127.{secrets.choice(range(65, 250))}"
        self.vpc = self.ec2.create_vpc(CidrBlock=f"{block}.0.0/16")["Vpc"]["VpcId"]
        self.gateway = self.ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        self.ec2.attach_internet_gateway(InternetGatewayId=self.gateway, VpcId=self.vpc)
        self.table = self.ec2.create_route_table(VpcId=self.vpc)["RouteTable"]["RouteTableId"]
        self.ec2.create_route(RouteTableId=self.table, DestinationCidrBlock="0.0.0.0/0", GatewayId=self.gateway)
        self.subnet = self.ec2.create_subnet(VpcId=self.vpc, CidrBlock=f"{block}.0.0/20", AvailabilityZone=ZONE)[
            "Subnet"
        ]["SubnetId"]
        self.association = self.ec2.associate_route_table(RouteTableId=self.table, SubnetId=self.subnet)[
            "AssociationId"
        ]
        self.endpoint = self.ec2.create_vpc_endpoint(
            VpcId=self.vpc,
            ServiceName="com.amazonaws.us-east-1.s3",
            VpcEndpointType="Gateway",
            RouteTableIds=[self.table],
        )["VpcEndpoint"]["VpcEndpointId"]
        self.group = self.ec2.create_security_group(
            GroupName=f"box-{secrets.token_hex(4)}", Description="box", VpcId=self.vpc
        )["GroupId"]
        self.ec2.revoke_security_group_egress(
            GroupId=self.group,
            IpPermissions=[{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}],
        )
        self.permit(443)

    def permit(self, port: int) -> None:
        self.ec2.authorize_security_group_egress(GroupId=self.group, IpPermissions=[permission(port)])

    def launch(self, *, public: bool = True) -> str:
        self.ec2.modify_subnet_attribute(SubnetId=self.subnet, MapPublicIpOnLaunch={"Value": public})
        launched = self.ec2.run_instances(
            ImageId=DEBIAN_IMAGE_ID,
            InstanceType="m7a.large",
            MinCount=1,
            MaxCount=1,
            SubnetId=self.subnet,
            SecurityGroupIds=[self.group],
        )
        return str(launched["Instances"][0]["InstanceId"])

    def reach(self, instance_id: str) -> Reach:
        described = self.ec2.describe_instances(InstanceIds=[instance_id])
        return reachability.describe(self.ec2, described["Reservations"][0]["Instances"][0])


def permission(port: int) -> dict[str, Any]:
    return {"IpProtocol": "tcp", "FromPort": port, "ToPort": port, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}


@pytest.fixture
def place(cloud: Cloud) -> Place:
    return Place(cloud)


def test_everything_is_there(place: Place) -> None:
    assert place.reach(place.launch()) == Reach(internet=True, s3=True, egress=frozenset({HTTPS}))


def test_without_a_public_address_only_s3_is_reached(place: Place) -> None:
    assert place.reach(place.launch(public=False)) == Reach(internet=False, s3=True, egress=frozenset({HTTPS}))


def test_without_a_route_only_s3_is_reached(place: Place) -> None:
    instance = place.launch()
    place.ec2.delete_route(RouteTableId=place.table, DestinationCidrBlock="0.0.0.0/0")
    assert place.reach(instance) == Reach(internet=False, s3=True, egress=frozenset({HTTPS}))


def test_without_an_attached_gateway_only_s3_is_reached(place: Place) -> None:
    instance = place.launch()
    place.ec2.detach_internet_gateway(InternetGatewayId=place.gateway, VpcId=place.vpc)
    assert place.reach(instance) == Reach(internet=False, s3=True, egress=frozenset({HTTPS}))


def test_without_the_endpoint_s3_is_reached_over_the_internet(place: Place) -> None:
    instance, private = place.launch(), place.launch(public=False)
    place.ec2.delete_vpc_endpoints(VpcEndpointIds=[place.endpoint])
    assert place.reach(instance) == Reach(internet=True, s3=True, egress=frozenset({HTTPS}))
    assert place.reach(private) == Reach(internet=False, s3=False, egress=frozenset({HTTPS}))


def test_an_endpoint_in_another_route_table_does_not_count(place: Place) -> None:
    instance = place.launch(public=False)
    place.ec2.modify_vpc_endpoint(VpcEndpointId=place.endpoint, RemoveRouteTableIds=[place.table])
    assert place.reach(instance) == Reach(internet=False, s3=False, egress=frozenset({HTTPS}))


def test_a_subnet_without_a_table_of_its_own_goes_by_the_vpc_s(place: Place) -> None:
    instance = place.launch()
    place.ec2.disassociate_route_table(AssociationId=place.association)
    assert place.reach(instance) == Reach(internet=False, s3=False, egress=frozenset({HTTPS}))


def test_egress_is_what_the_groups_say(place: Place) -> None:
    instance = place.launch()
    place.permit(80)
    both = frozenset({HTTPS, Egress("tcp", (80, 80), "0.0.0.0/0")})
    assert place.reach(instance) == Reach(internet=True, s3=True, egress=both)
    place.ec2.revoke_security_group_egress(GroupId=place.group, IpPermissions=[permission(443), permission(80)])
    assert place.reach(instance) == Reach(internet=True, s3=True, egress=frozenset())


def test_an_egress_rule_that_is_not_known_is_said(place: Place) -> None:
    instance = place.launch()
    to_itself = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": place.group}]}
    place.ec2.authorize_security_group_egress(GroupId=place.group, IpPermissions=[to_itself])
    with pytest.raises(ValueError, match=f"security group {place.group}: an egress rule to a prefix list or another"):
        place.reach(instance)
