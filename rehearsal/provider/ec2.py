"""EC2: the network and its security groups."""

# `ResourceType` says once what the operations of a type do and are given; its name says what it is.
# ruff: noqa: ARG002, D101, D102

from collections.abc import Mapping
from typing import Any, ClassVar

from rehearsal.provider.aws import POLL, Aws, code_in, only, retry, tag_list, tag_map, to_aws
from rehearsal.provider.errors import ProviderError
from rehearsal.provider.resource import (
    TAGS,
    Function,
    Property,
    ResourceType,
    same_set,
    string_hash,
)
from rehearsal.provider.wire import Properties


def tag_specifications(kind: str, tags: Mapping[str, str] | None) -> list[Any]:
    """Give the tags of a resource of ``kind`` as EC2 takes them on creation, which refuses an empty list."""
    return [{"ResourceType": kind, "Tags": tag_list(tags)}] if tags else []


def where(name: str, *values: str) -> Any:
    """Give one of EC2's filters: what has one of ``values`` as its ``name``."""
    return {"Name": name, "Values": list(values)}


class Ec2Type(ResourceType):
    """A resource type of EC2, where every resource is tagged in the same way."""

    def tag(self, resource_id: str, tags: Mapping[str, str]) -> None:
        self.aws.ec2.create_tags(Resources=[resource_id], Tags=tag_list(tags))

    def untag(self, resource_id: str, keys: list[str]) -> None:
        self.aws.ec2.delete_tags(Resources=[resource_id], Tags=[{"Key": key} for key in keys])


class Vpc(Ec2Type):
    def set_dns(self, resource_id: str, _old: Properties, new: Properties) -> None:
        # AWS takes one attribute in a request.
        self.aws.ec2.modify_vpc_attribute(VpcId=resource_id, EnableDnsSupport={"Value": new["enableDnsSupport"]})
        self.aws.ec2.modify_vpc_attribute(VpcId=resource_id, EnableDnsHostnames={"Value": new["enableDnsHostnames"]})

    name = "aws:ec2/vpc:Vpc"
    not_found = frozenset({"InvalidVpcID.NotFound"})
    inputs: ClassVar = {
        "cidrBlock": Property(required=True, replaces=True),
        "enableDnsSupport": Property(default=True, update=set_dns),
        "enableDnsHostnames": Property(default=False, update=set_dns),
        "tags": TAGS,
    }
    outputs = frozenset({"arn", "defaultSecurityGroupId", "mainRouteTableId", "ownerId"})

    def create(self, new: Properties) -> str:
        answer = self.aws.ec2.create_vpc(
            CidrBlock=new["cidrBlock"], TagSpecifications=tag_specifications("vpc", new["tags"])
        )
        return answer["Vpc"]["VpcId"]

    def settle(self, resource_id: str, new: Properties) -> None:
        self.aws.ec2.get_waiter("vpc_available").wait(VpcIds=[resource_id], WaiterConfig=POLL)
        self.set_dns(resource_id, {}, new)

    def read(self, resource_id: str, known: Properties) -> Properties:
        ec2 = self.aws.ec2
        vpc = only(ec2.describe_vpcs(VpcIds=[resource_id])["Vpcs"])
        in_vpc = where("vpc-id", resource_id)
        groups = ec2.describe_security_groups(Filters=[in_vpc, where("group-name", "default")])
        tables = ec2.describe_route_tables(Filters=[in_vpc, where("association.main", "true")])
        support = ec2.describe_vpc_attribute(VpcId=resource_id, Attribute="enableDnsSupport")["EnableDnsSupport"]
        hostnames = ec2.describe_vpc_attribute(VpcId=resource_id, Attribute="enableDnsHostnames")["EnableDnsHostnames"]
        return {
            "cidrBlock": vpc["CidrBlock"],
            "enableDnsSupport": support["Value"],
            "enableDnsHostnames": hostnames["Value"],
            "tags": tag_map(vpc.get("Tags", [])),
            "arn": self.aws.arn("ec2", f"vpc/{resource_id}"),
            "defaultSecurityGroupId": only(groups["SecurityGroups"])["GroupId"],
            "mainRouteTableId": only(tables["RouteTables"])["RouteTableId"],
            "ownerId": vpc["OwnerId"],
        }

    def delete(self, resource_id: str, old: Properties) -> None:
        retry(lambda: self.aws.ec2.delete_vpc(VpcId=resource_id), code_in("DependencyViolation"))


class Subnet(Ec2Type):
    def set_public_ip(self, resource_id: str, _old: Properties, new: Properties) -> None:
        self.aws.ec2.modify_subnet_attribute(
            SubnetId=resource_id, MapPublicIpOnLaunch={"Value": new["mapPublicIpOnLaunch"]}
        )

    name = "aws:ec2/subnet:Subnet"
    not_found = frozenset({"InvalidSubnetID.NotFound"})
    inputs: ClassVar = {
        "vpcId": Property(required=True, replaces=True),
        "cidrBlock": Property(required=True, replaces=True),
        "availabilityZone": Property(required=True, replaces=True),
        "mapPublicIpOnLaunch": Property(default=False, update=set_public_ip),
        "tags": TAGS,
    }
    outputs = frozenset({"arn", "availabilityZoneId", "ownerId"})

    def create(self, new: Properties) -> str:
        answer = self.aws.ec2.create_subnet(
            VpcId=new["vpcId"],
            CidrBlock=new["cidrBlock"],
            AvailabilityZone=new["availabilityZone"],
            TagSpecifications=tag_specifications("subnet", new["tags"]),
        )
        return answer["Subnet"]["SubnetId"]

    def settle(self, resource_id: str, new: Properties) -> None:
        self.aws.ec2.get_waiter("subnet_available").wait(SubnetIds=[resource_id], WaiterConfig=POLL)
        self.set_public_ip(resource_id, {}, new)

    def read(self, resource_id: str, known: Properties) -> Properties:
        subnet = only(self.aws.ec2.describe_subnets(SubnetIds=[resource_id])["Subnets"])
        return {
            "vpcId": subnet["VpcId"],
            "cidrBlock": subnet["CidrBlock"],
            "availabilityZone": subnet["AvailabilityZone"],
            "mapPublicIpOnLaunch": subnet["MapPublicIpOnLaunch"],
            "tags": tag_map(subnet.get("Tags", [])),
            "arn": subnet["SubnetArn"],
            "availabilityZoneId": subnet["AvailabilityZoneId"],
            "ownerId": subnet["OwnerId"],
        }

    def delete(self, resource_id: str, old: Properties) -> None:
        # An instance's interface goes a little after the instance.
        retry(lambda: self.aws.ec2.delete_subnet(SubnetId=resource_id), code_in("DependencyViolation"))


class InternetGateway(Ec2Type):
    def set_vpc(self, resource_id: str, old: Properties, new: Properties) -> None:
        if "vpcId" in old:
            self.aws.ec2.detach_internet_gateway(InternetGatewayId=resource_id, VpcId=old["vpcId"])
        if "vpcId" in new:
            self.aws.ec2.attach_internet_gateway(InternetGatewayId=resource_id, VpcId=new["vpcId"])

    name = "aws:ec2/internetGateway:InternetGateway"
    not_found = frozenset({"InvalidInternetGatewayID.NotFound"})
    inputs: ClassVar = {"vpcId": Property(update=set_vpc), "tags": TAGS}
    outputs = frozenset({"arn", "ownerId"})

    def create(self, new: Properties) -> str:
        answer = self.aws.ec2.create_internet_gateway(
            TagSpecifications=tag_specifications("internet-gateway", new["tags"])
        )
        return answer["InternetGateway"]["InternetGatewayId"]

    def settle(self, resource_id: str, new: Properties) -> None:
        self.set_vpc(resource_id, {}, new)

    def read(self, resource_id: str, known: Properties) -> Properties:
        gateways = self.aws.ec2.describe_internet_gateways(InternetGatewayIds=[resource_id])["InternetGateways"]
        gateway = only(gateways)
        attachments = gateway["Attachments"]
        return {
            "vpcId": attachments[0]["VpcId"] if attachments else None,
            "tags": tag_map(gateway.get("Tags", [])),
            "arn": self.aws.arn("ec2", f"internet-gateway/{resource_id}"),
            "ownerId": gateway["OwnerId"],
        }

    def delete(self, resource_id: str, old: Properties) -> None:
        # What is there, not what should be: a gateway whose creation broke off is attached to nothing.
        if vpc := self.read(resource_id, {})["vpcId"]:
            # AWS refuses to detach while addresses of the network are still mapped.
            retry(lambda: self.set_vpc(resource_id, {"vpcId": vpc}, {}), code_in("DependencyViolation"))
        self.aws.ec2.delete_internet_gateway(InternetGatewayId=resource_id)


class RouteTable(Ec2Type):
    name = "aws:ec2/routeTable:RouteTable"
    not_found = frozenset({"InvalidRouteTableID.NotFound"})
    inputs: ClassVar = {"vpcId": Property(required=True, replaces=True), "tags": TAGS}
    outputs = frozenset({"arn", "ownerId"})

    def create(self, new: Properties) -> str:
        answer = self.aws.ec2.create_route_table(
            VpcId=new["vpcId"], TagSpecifications=tag_specifications("route-table", new["tags"])
        )
        return answer["RouteTable"]["RouteTableId"]

    def read(self, resource_id: str, known: Properties) -> Properties:
        table = only(self.aws.ec2.describe_route_tables(RouteTableIds=[resource_id])["RouteTables"])
        return {
            "vpcId": table["VpcId"],
            "tags": tag_map(table.get("Tags", [])),
            "arn": self.aws.arn("ec2", f"route-table/{resource_id}"),
            "ownerId": table["OwnerId"],
        }

    def delete(self, resource_id: str, old: Properties) -> None:
        retry(lambda: self.aws.ec2.delete_route_table(RouteTableId=resource_id), code_in("DependencyViolation"))


class Route(ResourceType):
    def set_target(self, _id: str, _old: Properties, new: Properties) -> None:
        self.aws.ec2.replace_route(
            RouteTableId=new["routeTableId"],
            DestinationCidrBlock=new["destinationCidrBlock"],
            GatewayId=new["gatewayId"],
        )

    name = "aws:ec2/route:Route"
    not_found = frozenset({"InvalidRouteTableID.NotFound", "InvalidRoute.NotFound"})
    inputs: ClassVar = {
        "routeTableId": Property(required=True, replaces=True),
        "destinationCidrBlock": Property(required=True, replaces=True),
        "gatewayId": Property(required=True, update=set_target),
    }
    outputs = frozenset({"origin", "state"})

    def create(self, new: Properties) -> str:
        self.aws.ec2.create_route(
            RouteTableId=new["routeTableId"],
            DestinationCidrBlock=new["destinationCidrBlock"],
            GatewayId=new["gatewayId"],
        )
        return f"r-{new['routeTableId']}{string_hash(new['destinationCidrBlock'])}"

    def read(self, resource_id: str, known: Properties) -> Properties | None:
        tables = self.aws.ec2.describe_route_tables(RouteTableIds=[known["routeTableId"]])["RouteTables"]
        for route in only(tables)["Routes"]:
            if route.get("DestinationCidrBlock") == known["destinationCidrBlock"]:
                return {
                    "destinationCidrBlock": route["DestinationCidrBlock"],
                    "gatewayId": route.get("GatewayId"),
                    "origin": route["Origin"],
                    "state": route["State"],
                }
        return None

    def delete(self, resource_id: str, old: Properties) -> None:
        self.aws.ec2.delete_route(RouteTableId=old["routeTableId"], DestinationCidrBlock=old["destinationCidrBlock"])


class RouteTableAssociation(ResourceType):
    """The official provider moves an association to another table in place, with a new id; this replaces it."""

    name = "aws:ec2/routeTableAssociation:RouteTableAssociation"
    not_found = frozenset({"InvalidAssociationID.NotFound"})
    inputs: ClassVar = {
        "routeTableId": Property(required=True, replaces=True),
        "subnetId": Property(required=True, replaces=True),
    }

    def create(self, new: Properties) -> str:
        answer = self.aws.ec2.associate_route_table(RouteTableId=new["routeTableId"], SubnetId=new["subnetId"])
        return answer["AssociationId"]

    def read(self, resource_id: str, known: Properties) -> Properties | None:
        by_id = [where("association.route-table-association-id", resource_id)]
        for table in self.aws.ec2.describe_route_tables(Filters=by_id)["RouteTables"]:
            for association in table["Associations"]:
                if association["RouteTableAssociationId"] == resource_id:
                    return {"routeTableId": association["RouteTableId"], "subnetId": association["SubnetId"]}
        return None

    def delete(self, resource_id: str, old: Properties) -> None:
        self.aws.ec2.disassociate_route_table(AssociationId=resource_id)


class VpcEndpoint(Ec2Type):
    def set_route_tables(self, resource_id: str, old: Properties, new: Properties) -> None:
        before, after = set(old["routeTableIds"]), set(new["routeTableIds"])
        self.aws.ec2.modify_vpc_endpoint(
            VpcEndpointId=resource_id,
            AddRouteTableIds=sorted(after - before),
            RemoveRouteTableIds=sorted(before - after),
        )

    name = "aws:ec2/vpcEndpoint:VpcEndpoint"
    not_found = frozenset({"InvalidVpcEndpointId.NotFound", "InvalidVpcEndpoint.NotFound"})
    inputs: ClassVar = {
        "vpcId": Property(required=True, replaces=True),
        "serviceName": Property(required=True, replaces=True),
        "vpcEndpointType": Property(default="Gateway", replaces=True),
        "routeTableIds": Property(default=[], same=same_set, update=set_route_tables),
        "tags": TAGS,
    }
    outputs = frozenset({"arn", "ownerId", "state"})

    def check(self, inputs: Properties) -> Any:
        yield from super().check(inputs)
        if inputs.get("vpcEndpointType", "Gateway") != "Gateway":
            yield "vpcEndpointType", f"{self.name}: the stand-in implements gateway endpoints only"

    def create(self, new: Properties) -> str:
        answer = self.aws.ec2.create_vpc_endpoint(
            VpcId=new["vpcId"],
            ServiceName=new["serviceName"],
            VpcEndpointType="Gateway",
            RouteTableIds=new["routeTableIds"],
            TagSpecifications=tag_specifications("vpc-endpoint", new["tags"]),
        )
        return answer["VpcEndpoint"]["VpcEndpointId"]

    def read(self, resource_id: str, known: Properties) -> Properties | None:
        endpoints = self.aws.ec2.describe_vpc_endpoints(VpcEndpointIds=[resource_id])["VpcEndpoints"]
        endpoint = only(endpoints)
        if endpoint["State"].lower() in {"deleting", "deleted"}:
            return None
        return {
            "vpcId": endpoint["VpcId"],
            "serviceName": endpoint["ServiceName"],
            "vpcEndpointType": endpoint["VpcEndpointType"],
            "routeTableIds": endpoint["RouteTableIds"],
            "tags": tag_map(endpoint.get("Tags", [])),
            "arn": self.aws.arn("ec2", f"vpc-endpoint/{resource_id}"),
            "ownerId": endpoint.get("OwnerId"),
            "state": endpoint["State"],
        }

    def delete(self, resource_id: str, old: Properties) -> None:
        failures = self.aws.ec2.delete_vpc_endpoints(VpcEndpointIds=[resource_id])["Unsuccessful"]
        for failure in failures:  # this call answers 200 even if it deletes nothing
            if failure["Error"]["Code"] not in self.not_found:
                raise ProviderError(f"{resource_id} cannot be deleted: {failure['Error']['Message']}")


class SecurityGroup(Ec2Type):
    """A security group without rules of its own: like the official provider, this removes the egress rule that AWS
    puts into a new group.
    """

    name = "aws:ec2/securityGroup:SecurityGroup"
    not_found = frozenset({"InvalidGroup.NotFound", "InvalidGroupId.NotFound"})
    inputs: ClassVar = {
        "name": Property(required=True, replaces=True),
        "description": Property(default="Managed by Pulumi", replaces=True),
        "vpcId": Property(required=True, replaces=True),
        "tags": TAGS,
    }
    outputs = frozenset({"arn", "ownerId"})

    def create(self, new: Properties) -> str:
        answer = self.aws.ec2.create_security_group(
            GroupName=new["name"],
            Description=new["description"],
            VpcId=new["vpcId"],
            TagSpecifications=tag_specifications("security-group", new["tags"]),
        )
        return answer["GroupId"]

    def settle(self, resource_id: str, new: Properties) -> None:
        group = only(self.aws.ec2.describe_security_groups(GroupIds=[resource_id])["SecurityGroups"])
        self.aws.ec2.revoke_security_group_egress(GroupId=resource_id, IpPermissions=group["IpPermissionsEgress"])

    def read(self, resource_id: str, known: Properties) -> Properties:
        group = only(self.aws.ec2.describe_security_groups(GroupIds=[resource_id])["SecurityGroups"])
        return {
            "name": group["GroupName"],
            "description": group["Description"],
            "vpcId": group["VpcId"],
            "tags": tag_map(group.get("Tags", [])),
            "arn": self.aws.arn("ec2", f"security-group/{resource_id}"),
            "ownerId": group["OwnerId"],
        }

    def delete(self, resource_id: str, old: Properties) -> None:
        # An instance's interface goes a little after the instance.
        retry(lambda: self.aws.ec2.delete_security_group(GroupId=resource_id), code_in("DependencyViolation"))


class SecurityGroupEgressRule(Ec2Type):
    def set_rule(self, resource_id: str, _old: Properties, new: Properties) -> None:
        rule = {name: value for name, value in new.items() if name not in {"securityGroupId", "tags"}}
        self.aws.ec2.modify_security_group_rules(
            GroupId=new["securityGroupId"],
            SecurityGroupRules=[{"SecurityGroupRuleId": resource_id, "SecurityGroupRule": to_aws(rule)}],
        )

    name = "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule"
    not_found = frozenset(
        {"InvalidSecurityGroupRuleId.NotFound", "InvalidGroup.NotFound", "InvalidPermission.NotFound"}
    )
    inputs: ClassVar = {
        "securityGroupId": Property(required=True, replaces=True),
        "ipProtocol": Property(required=True, update=set_rule),
        "fromPort": Property(required=True, update=set_rule),
        "toPort": Property(required=True, update=set_rule),
        "cidrIpv4": Property(required=True, update=set_rule),
        "description": Property(default="", update=set_rule),
        "tags": TAGS,
    }
    outputs = frozenset({"arn", "securityGroupRuleId"})

    def create(self, new: Properties) -> str:
        permission: Any = {
            "IpProtocol": new["ipProtocol"],
            "FromPort": new["fromPort"],
            "ToPort": new["toPort"],
            "IpRanges": [{"CidrIp": new["cidrIpv4"], "Description": new["description"]}],
        }
        answer = self.aws.ec2.authorize_security_group_egress(
            GroupId=new["securityGroupId"],
            IpPermissions=[permission],
            TagSpecifications=tag_specifications("security-group-rule", new["tags"]),
        )
        return only(answer["SecurityGroupRules"])["SecurityGroupRuleId"]

    def read(self, resource_id: str, known: Properties) -> Properties:
        rules = self.aws.ec2.describe_security_group_rules(SecurityGroupRuleIds=[resource_id])["SecurityGroupRules"]
        rule = only(rules)
        return {
            "securityGroupId": rule["GroupId"],
            "ipProtocol": rule["IpProtocol"],
            "fromPort": rule["FromPort"],
            "toPort": rule["ToPort"],
            "cidrIpv4": rule.get("CidrIpv4"),
            "description": rule.get("Description", ""),
            "tags": tag_map(rule.get("Tags", [])),
            "arn": self.aws.arn("ec2", f"security-group-rule/{resource_id}"),
            "securityGroupRuleId": resource_id,
        }

    def delete(self, resource_id: str, old: Properties) -> None:
        self.aws.ec2.revoke_security_group_egress(GroupId=old["securityGroupId"], SecurityGroupRuleIds=[resource_id])


def filters(arguments: Properties) -> list[Any]:
    """Give the ``filters`` of a function's arguments as EC2 takes them."""
    return [to_aws(item) for item in arguments.get("filters") or []]


def get_availability_zones(aws: Aws, arguments: Properties) -> Properties:
    """Name the region's zones, as `aws.get_availability_zones` does."""
    state = [where("state", arguments["state"])] if "state" in arguments else []
    zones = aws.ec2.describe_availability_zones(Filters=[*state, *filters(arguments)])["AvailabilityZones"]
    zones = sorted(zones, key=lambda zone: zone["ZoneName"])
    return {
        "id": aws.region,
        "region": aws.region,
        "names": [zone["ZoneName"] for zone in zones],
        "zoneIds": [zone["ZoneId"] for zone in zones],
    }


def get_instance_type_offerings(aws: Aws, arguments: Properties) -> Properties:
    """Say where which instance types can be had, as `aws.ec2.get_instance_type_offerings` does."""
    location_type = arguments.get("locationType", "region")
    pages = aws.ec2.get_paginator("describe_instance_type_offerings").paginate(
        LocationType=location_type, Filters=filters(arguments)
    )
    offerings = [offering for page in pages for offering in page["InstanceTypeOfferings"]]
    return {
        "id": aws.region,
        "region": aws.region,
        "locationType": location_type,
        "instanceTypes": [offering["InstanceType"] for offering in offerings],
        "locations": [offering["Location"] for offering in offerings],
        "locationTypes": [offering["LocationType"] for offering in offerings],
    }


def get_instance_type(aws: Aws, arguments: Properties) -> Properties:
    """Describe an instance type, as `aws.ec2.get_instance_type` does."""
    name = arguments["instanceType"]
    found = only(aws.ec2.describe_instance_types(InstanceTypes=[name])["InstanceTypes"])
    gpus = found.get("GpuInfo", {})
    return {
        "id": name,
        "region": aws.region,
        "instanceType": name,
        "currentGeneration": found["CurrentGeneration"],
        "defaultVcpus": found["VCpuInfo"]["DefaultVCpus"],
        "memorySize": found["MemoryInfo"]["SizeInMiB"],
        "supportedArchitectures": found["ProcessorInfo"]["SupportedArchitectures"],
        "gpuses": [
            {
                "name": gpu["Name"],
                "manufacturer": gpu["Manufacturer"],
                "count": gpu["Count"],
                "memorySize": gpu["MemoryInfo"]["SizeInMiB"],
            }
            for gpu in gpus.get("Gpus", [])
        ],
        "totalGpuMemory": gpus.get("TotalGpuMemoryInMiB", 0),
        "totalInstanceStorage": found.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
    }


def get_instances(aws: Aws, arguments: Properties) -> Properties:
    """Name the instances that match, as `aws.ec2.get_instances` does: running ones unless asked otherwise."""
    tags = [where(f"tag:{key}", value) for key, value in (arguments.get("instanceTags") or {}).items()]
    states = where("instance-state-name", *(arguments.get("instanceStateNames") or ["running"]))
    pages = aws.ec2.get_paginator("describe_instances").paginate(Filters=[states, *tags, *filters(arguments)])
    instances = [item for page in pages for group in page["Reservations"] for item in group["Instances"]]
    return {
        "id": aws.region,
        "region": aws.region,
        "ids": [instance["InstanceId"] for instance in instances],
        "privateIps": [instance["PrivateIpAddress"] for instance in instances if "PrivateIpAddress" in instance],
        "publicIps": [instance["PublicIpAddress"] for instance in instances if "PublicIpAddress" in instance],
    }


RESOURCES: tuple[type[ResourceType], ...] = (
    Vpc,
    Subnet,
    InternetGateway,
    RouteTable,
    Route,
    RouteTableAssociation,
    VpcEndpoint,
    SecurityGroup,
    SecurityGroupEgressRule,
)
FUNCTIONS = (
    Function(
        "aws:index/getAvailabilityZones:getAvailabilityZones",
        frozenset({"state", "filters"}),
        get_availability_zones,
    ),
    Function(
        "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings",
        frozenset({"locationType", "filters"}),
        get_instance_type_offerings,
    ),
    Function("aws:ec2/getInstanceType:getInstanceType", frozenset({"instanceType"}), get_instance_type),
    Function(
        "aws:ec2/getInstances:getInstances",
        frozenset({"instanceTags", "instanceStateNames", "filters"}),
        get_instances,
    ),
)
