"""IAM and STS."""

# `ResourceType` says once what the operations of a type do and are given; its name says what it is.
# ruff: noqa: ARG002, D101, D102

import json
from collections.abc import Mapping
from typing import ClassVar

from rehearsal.provider.aws import Aws, tag_list, tag_map
from rehearsal.provider.resource import TAGS, Function, Property, ResourceType, same_json
from rehearsal.provider.wire import Properties

NO_SUCH_ENTITY = frozenset({"NoSuchEntity"})


class Role(ResourceType):
    def set_trust(self, resource_id: str, _old: Properties, new: Properties) -> None:
        self.aws.iam.update_assume_role_policy(RoleName=resource_id, PolicyDocument=new["assumeRolePolicy"])

    def set_description(self, resource_id: str, _old: Properties, new: Properties) -> None:
        self.aws.iam.update_role(
            RoleName=resource_id, Description=new["description"], MaxSessionDuration=new["maxSessionDuration"]
        )

    name = "aws:iam/role:Role"
    not_found = NO_SUCH_ENTITY
    inputs: ClassVar = {
        "name": Property(required=True, replaces=True),
        "path": Property(default="/", replaces=True),
        "assumeRolePolicy": Property(required=True, same=same_json, update=set_trust),
        "description": Property(default="", update=set_description),
        "maxSessionDuration": Property(default=3600, update=set_description),
        "tags": TAGS,
    }
    outputs = frozenset({"arn", "uniqueId"})

    def create(self, new: Properties) -> str:
        self.aws.iam.create_role(
            RoleName=new["name"],
            Path=new["path"],
            AssumeRolePolicyDocument=new["assumeRolePolicy"],
            Description=new["description"],
            MaxSessionDuration=new["maxSessionDuration"],
            Tags=tag_list(new["tags"]),
        )
        return str(new["name"])

    def read(self, resource_id: str, known: Properties) -> Properties:
        role = self.aws.iam.get_role(RoleName=resource_id)["Role"]
        return {
            "name": role["RoleName"],
            "path": role["Path"],
            "assumeRolePolicy": json.dumps(role["AssumeRolePolicyDocument"], sort_keys=True),
            "description": role.get("Description", ""),
            "maxSessionDuration": role["MaxSessionDuration"],
            "tags": tag_map(role.get("Tags", [])),
            "arn": role["Arn"],
            "uniqueId": role["RoleId"],
        }

    def delete(self, resource_id: str, old: Properties) -> None:
        self.aws.iam.delete_role(RoleName=resource_id)

    def tag(self, resource_id: str, tags: Mapping[str, str]) -> None:
        self.aws.iam.tag_role(RoleName=resource_id, Tags=tag_list(tags))

    def untag(self, resource_id: str, keys: list[str]) -> None:
        self.aws.iam.untag_role(RoleName=resource_id, TagKeys=keys)


class RolePolicy(ResourceType):
    def put(self, _id: str, _old: Properties, new: Properties) -> None:
        self.aws.iam.put_role_policy(RoleName=new["role"], PolicyName=new["name"], PolicyDocument=new["policy"])

    name = "aws:iam/rolePolicy:RolePolicy"
    not_found = NO_SUCH_ENTITY
    inputs: ClassVar = {
        "role": Property(required=True, replaces=True),
        "name": Property(required=True, replaces=True),
        "policy": Property(required=True, same=same_json, update=put),
    }

    def create(self, new: Properties) -> str:
        self.put("", {}, new)
        return f"{new['role']}:{new['name']}"

    def read(self, resource_id: str, known: Properties) -> Properties:
        role, _, name = resource_id.partition(":")
        answer = self.aws.iam.get_role_policy(RoleName=role, PolicyName=name)
        policy = json.dumps(answer["PolicyDocument"], sort_keys=True)
        return {"role": answer["RoleName"], "name": answer["PolicyName"], "policy": policy}

    def delete(self, resource_id: str, old: Properties) -> None:
        self.aws.iam.delete_role_policy(RoleName=old["role"], PolicyName=old["name"])


class InstanceProfile(ResourceType):
    def set_role(self, resource_id: str, old: Properties, new: Properties) -> None:
        if "role" in old:
            self.aws.iam.remove_role_from_instance_profile(InstanceProfileName=resource_id, RoleName=old["role"])
        if "role" in new:
            self.aws.iam.add_role_to_instance_profile(InstanceProfileName=resource_id, RoleName=new["role"])

    name = "aws:iam/instanceProfile:InstanceProfile"
    not_found = NO_SUCH_ENTITY
    inputs: ClassVar = {
        "name": Property(required=True, replaces=True),
        "path": Property(default="/", replaces=True),
        "role": Property(update=set_role),
        "tags": TAGS,
    }
    outputs = frozenset({"arn", "uniqueId"})

    def create(self, new: Properties) -> str:
        self.aws.iam.create_instance_profile(
            InstanceProfileName=new["name"], Path=new["path"], Tags=tag_list(new["tags"])
        )
        return str(new["name"])

    def settle(self, resource_id: str, new: Properties) -> None:
        self.set_role(resource_id, {}, new)

    def read(self, resource_id: str, known: Properties) -> Properties:
        profile = self.aws.iam.get_instance_profile(InstanceProfileName=resource_id)["InstanceProfile"]
        roles = profile["Roles"]
        return {
            "name": profile["InstanceProfileName"],
            "path": profile["Path"],
            "role": roles[0]["RoleName"] if roles else None,
            "tags": tag_map(profile.get("Tags", [])),
            "arn": profile["Arn"],
            "uniqueId": profile["InstanceProfileId"],
        }

    def delete(self, resource_id: str, old: Properties) -> None:
        # What is there, not what should be: a profile whose creation broke off has no role.
        for role in self.aws.iam.get_instance_profile(InstanceProfileName=resource_id)["InstanceProfile"]["Roles"]:
            self.set_role(resource_id, {"role": role["RoleName"]}, {})
        self.aws.iam.delete_instance_profile(InstanceProfileName=resource_id)

    def tag(self, resource_id: str, tags: Mapping[str, str]) -> None:
        self.aws.iam.tag_instance_profile(InstanceProfileName=resource_id, Tags=tag_list(tags))

    def untag(self, resource_id: str, keys: list[str]) -> None:
        self.aws.iam.untag_instance_profile(InstanceProfileName=resource_id, TagKeys=keys)


def get_caller_identity(aws: Aws, _arguments: Properties) -> Properties:
    """Say who calls, as `aws.get_caller_identity` does."""
    caller = aws.sts.get_caller_identity()
    return {
        "id": caller["Account"],
        "accountId": caller["Account"],
        "arn": caller["Arn"],
        "userId": caller["UserId"],
    }


def get_region(aws: Aws, _arguments: Properties) -> Properties:
    """Name the region, as `aws.get_region` does."""
    return {"id": aws.region, "region": aws.region, "name": aws.region}


RESOURCES: tuple[type[ResourceType], ...] = (Role, RolePolicy, InstanceProfile)
FUNCTIONS = (
    Function("aws:index/getCallerIdentity:getCallerIdentity", frozenset(), get_caller_identity),
    Function("aws:index/getRegion:getRegion", frozenset(), get_region),
)
