"""CloudWatch Logs."""

# `ResourceType` says once what the operations of a type do and are given; its name says what it is.
# ruff: noqa: ARG002, D101, D102

from collections.abc import Mapping
from typing import ClassVar

from rehearsal.provider.resource import TAGS, Property, ResourceType
from rehearsal.provider.wire import Properties


class LogGroup(ResourceType):
    def set_retention(self, resource_id: str, _old: Properties, new: Properties) -> None:
        if new["retentionInDays"]:
            self.aws.logs.put_retention_policy(logGroupName=resource_id, retentionInDays=new["retentionInDays"])
        else:
            self.aws.logs.delete_retention_policy(logGroupName=resource_id)

    name = "aws:cloudwatch/logGroup:LogGroup"
    not_found = frozenset({"ResourceNotFoundException"})
    inputs: ClassVar = {
        "name": Property(required=True, replaces=True),
        "retentionInDays": Property(default=0, update=set_retention),
        "tags": TAGS,
    }
    outputs = frozenset({"arn"})

    def create(self, new: Properties) -> str:
        self.aws.logs.create_log_group(logGroupName=new["name"], tags=new["tags"])
        return str(new["name"])

    def settle(self, resource_id: str, new: Properties) -> None:
        if new["retentionInDays"]:
            self.set_retention(resource_id, {}, new)

    def read(self, resource_id: str, known: Properties) -> Properties | None:
        groups = self.aws.logs.describe_log_groups(logGroupNamePrefix=resource_id)["logGroups"]
        for group in groups:
            if group["logGroupName"] == resource_id:
                arn = self._arn(resource_id)
                tags = self.aws.logs.list_tags_for_resource(resourceArn=arn)["tags"]
                return {
                    "name": resource_id,
                    "retentionInDays": group.get("retentionInDays", 0),
                    "tags": tags,
                    "arn": arn,
                }
        return None

    def delete(self, resource_id: str, old: Properties) -> None:
        self.aws.logs.delete_log_group(logGroupName=resource_id)

    def tag(self, resource_id: str, tags: Mapping[str, str]) -> None:
        self.aws.logs.tag_resource(resourceArn=self._arn(resource_id), tags=tags)

    def untag(self, resource_id: str, keys: list[str]) -> None:
        self.aws.logs.untag_resource(resourceArn=self._arn(resource_id), tagKeys=keys)

    def _arn(self, name: str) -> str:
        return self.aws.arn("logs", f"log-group:{name}")


RESOURCES: tuple[type[ResourceType], ...] = (LogGroup,)
