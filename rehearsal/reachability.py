"""What an instance can reach, by the state of EC2: its public address, routes, endpoint and security groups.

Sources: https://docs.aws.amazon.com/vpc/latest/userguide/VPC_Internet_Gateway.html (public address, route, attached
gateway), https://docs.aws.amazon.com/vpc/latest/privatelink/gateway-endpoints.html (S3),
https://docs.aws.amazon.com/vpc/latest/userguide/vpc-security-groups.html (egress rules; they filter neither the VPC's
DNS nor the metadata service). Network ACLs and IPv6 are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rehearsal.cloud import REGION

Description = Mapping[str, Any]
"""A part of an answer of EC2's Describe operations, as boto3 gives it."""

ANYWHERE = "0.0.0.0/0"


@dataclass(frozen=True, order=True)
class Egress:
    """What a security group lets out.

    Attributes:
        protocol: `tcp`, `udp`, `icmp`, or `-1` for everything.
        ports: the lowest and the highest; None for all.
        network: where to, in CIDR notation.
    """

    protocol: str
    ports: tuple[int, int] | None
    network: str


@dataclass(frozen=True)
class Reach:
    """What an instance can reach, besides the VPC's DNS and the metadata service.

    Attributes:
        internet: there is a way to public addresses, AWS's services among them.
        s3: there is a way to S3, the endpoint's or the internet's.
        egress: what its security groups let out; it holds on either way.
    """

    internet: bool
    s3: bool
    egress: frozenset[Egress]


NOTHING = Reach(internet=False, s3=False, egress=frozenset())


def derive(
    instance: Description,
    *,
    route_tables: Sequence[Description],
    internet_gateways: Sequence[Description],
    vpc_endpoints: Sequence[Description],
    security_groups: Sequence[Description],
) -> Reach:
    """What an instance can reach.

    Args:
        instance: of DescribeInstances.
        route_tables: of DescribeRouteTables; like the others, with those of other VPCs or without.
        internet_gateways: of DescribeInternetGateways.
        vpc_endpoints: of DescribeVpcEndpoints.
        security_groups: of DescribeSecurityGroups.

    Raises:
        ValueError: an egress rule leads to a prefix list or another group, which is not known here.
    """
    table = _route_table(instance, route_tables)
    internet = "PublicIpAddress" in instance and _leads_out(instance["VpcId"], table, internet_gateways)
    endpoint = any(
        endpoint["ServiceName"] == f"com.amazonaws.{REGION}.s3"
        and endpoint["VpcEndpointType"] == "Gateway"
        and endpoint["State"] == "available"
        and table["RouteTableId"] in endpoint["RouteTableIds"]
        for endpoint in vpc_endpoints
    )
    used = {group["GroupId"] for group in instance["SecurityGroups"]}
    egress = (rule for group in security_groups if group["GroupId"] in used for rule in _egress(group))
    return Reach(internet=internet, s3=endpoint or internet, egress=frozenset(egress))


def describe(ec2: Any, instance: Description) -> Reach:
    """What an instance can reach now.

    Args:
        ec2: a boto3 client.
        instance: of DescribeInstances.

    Raises:
        ValueError: as `derive`.
    """
    return derive(
        instance,
        route_tables=ec2.describe_route_tables()["RouteTables"],
        internet_gateways=ec2.describe_internet_gateways()["InternetGateways"],
        vpc_endpoints=ec2.describe_vpc_endpoints()["VpcEndpoints"],
        security_groups=ec2.describe_security_groups()["SecurityGroups"],
    )


def _route_table(instance: Description, tables: Sequence[Description]) -> Description:
    """The table of the instance's subnet, or of its VPC when the subnet has none of its own.

    Source: https://docs.aws.amazon.com/vpc/latest/userguide/VPC_Route_Tables.html
    """
    associated = [(table, association) for table in tables for association in table["Associations"]]
    for table, association in associated:
        if association.get("SubnetId") == instance["SubnetId"]:
            return table
    return next(
        table for table, association in associated if association.get("Main") and table["VpcId"] == instance["VpcId"]
    )


def _leads_out(vpc: str, table: Description, gateways: Sequence[Description]) -> bool:
    attached = {
        gateway["InternetGatewayId"]
        for gateway in gateways
        for attachment in gateway["Attachments"]
        if attachment["VpcId"] == vpc and attachment["State"] in ("available", "attached")
    }
    return any(
        route.get("DestinationCidrBlock") == ANYWHERE
        and route.get("GatewayId") in attached
        and route.get("State", "active") == "active"
        for route in table["Routes"]
    )


def _egress(group: Description) -> Iterator[Egress]:
    for permission in group["IpPermissionsEgress"]:
        if permission.get("PrefixListIds") or permission.get("UserIdGroupPairs"):
            raise ValueError(
                f"security group {group['GroupId']}: an egress rule to a prefix list or another group is not known to "
                "the rehearsal; give it a CIDR block"
            )
        protocol = permission["IpProtocol"]
        ports = None
        if protocol in ("tcp", "udp"):
            ports = (permission["FromPort"], permission["ToPort"])
        for block in permission["IpRanges"]:
            yield Egress(protocol, ports, block["CidrIp"])
