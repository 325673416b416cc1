"""The network that boxes stand in: public subnets, and a way to S3 that does not leave AWS."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from infra.naming import VPC_CIDR, subnet_cidr, tags


class Network(pulumi.ComponentResource):
    """A VPC with a public subnet in each of `zones`, an internet gateway and the gateway endpoint of S3.

    There is no NAT gateway: a box reaches out by its own public address, and nothing lets anybody in (a box's
    security group has no ingress). The endpoint makes cache traffic free of charge, and it is what a
    session's policy asks for.
    """

    vpc_id: pulumi.Output[str]
    s3_endpoint_id: pulumi.Output[str]
    subnet_ids: pulumi.Output[dict[str, str]]
    """Availability zone to subnet id."""

    def __init__(
        self,
        name: str,
        *,
        stack: str,
        region: str,
        zones: Sequence[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("rocm-build-box:infra:Network", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        vpc = aws.ec2.Vpc(
            name,
            cidr_block=VPC_CIDR,
            enable_dns_support=True,
            enable_dns_hostnames=True,
            tags=tags(stack, name),
            opts=child,
        )
        gateway = aws.ec2.InternetGateway(name, vpc_id=vpc.id, tags=tags(stack, name), opts=child)
        table = aws.ec2.RouteTable(name, vpc_id=vpc.id, tags=tags(stack, name), opts=child)
        aws.ec2.Route(
            f"{name}-internet",
            route_table_id=table.id,
            destination_cidr_block="0.0.0.0/0",
            gateway_id=gateway.id,
            opts=child,
        )
        subnets = {}
        for zone in sorted(zones):
            subnet = aws.ec2.Subnet(
                f"{name}-{zone}",
                vpc_id=vpc.id,
                availability_zone=zone,
                cidr_block=subnet_cidr(zone),
                map_public_ip_on_launch=True,
                tags=tags(stack, f"{name}-{zone}"),
                opts=child,
            )
            aws.ec2.RouteTableAssociation(f"{name}-{zone}", route_table_id=table.id, subnet_id=subnet.id, opts=child)
            subnets[zone] = subnet.id
        endpoint = aws.ec2.VpcEndpoint(
            f"{name}-s3",
            vpc_id=vpc.id,
            service_name=f"com.amazonaws.{region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=[table.id],
            tags=tags(stack, f"{name}-s3"),
            opts=child,
        )
        self.vpc_id = vpc.id
        self.s3_endpoint_id = endpoint.id
        self.subnet_ids = pulumi.Output.all(**subnets)
        self.register_outputs({})
