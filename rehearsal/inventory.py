"""What is in an AWS account, so that a rehearsal can tell what it left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rehearsal.cloud.server import Cloud

# kind -> service, operation, and how its answer names what exists. AWS's own leftovers are not counted: a terminated
# instance stays visible for an hour.
_KINDS: dict[str, tuple[str, str, Callable[[dict[str, Any]], Iterable[str]]]] = {
    "instance": (
        "ec2",
        "describe_instances",
        lambda page: (
            instance["InstanceId"]
            for reservation in page["Reservations"]
            for instance in reservation["Instances"]
            if instance["State"]["Name"] != "terminated"
        ),
    ),
    "volume": ("ec2", "describe_volumes", lambda page: (item["VolumeId"] for item in page["Volumes"])),
    "network interface": (
        "ec2",
        "describe_network_interfaces",
        lambda page: (item["NetworkInterfaceId"] for item in page["NetworkInterfaces"]),
    ),
    "security group": (
        "ec2",
        "describe_security_groups",
        lambda page: (item["GroupId"] for item in page["SecurityGroups"]),
    ),
    "VPC": ("ec2", "describe_vpcs", lambda page: (item["VpcId"] for item in page["Vpcs"])),
    "subnet": ("ec2", "describe_subnets", lambda page: (item["SubnetId"] for item in page["Subnets"])),
    "route table": (
        "ec2",
        "describe_route_tables",
        lambda page: (item["RouteTableId"] for item in page["RouteTables"]),
    ),
    "internet gateway": (
        "ec2",
        "describe_internet_gateways",
        lambda page: (item["InternetGatewayId"] for item in page["InternetGateways"]),
    ),
    "VPC endpoint": (
        "ec2",
        "describe_vpc_endpoints",
        lambda page: (item["VpcEndpointId"] for item in page["VpcEndpoints"] if item["State"] != "deleted"),
    ),
    "bucket": ("s3", "list_buckets", lambda page: (item["Name"] for item in page["Buckets"])),
    "repository": (
        "ecr",
        "describe_repositories",
        lambda page: (item["repositoryName"] for item in page["repositories"]),
    ),
    "role": ("iam", "list_roles", lambda page: (item["RoleName"] for item in page["Roles"])),
    "instance profile": (
        "iam",
        "list_instance_profiles",
        lambda page: (item["InstanceProfileName"] for item in page["InstanceProfiles"]),
    ),
    "log group": ("logs", "describe_log_groups", lambda page: (item["logGroupName"] for item in page["logGroups"])),
}


def take(cloud: Cloud) -> set[tuple[str, str]]:
    """Everything that exists, as (kind, name)."""
    return {
        (kind, name)
        for kind, (service, operation, names) in _KINDS.items()
        for page in cloud.client(service).get_paginator(operation).paginate()
        for name in names(page)
    }
