"""ECR."""

# `ResourceType` says once what the operations of a type do and are given; its name says what it is.
# ruff: noqa: ARG002, D101, D102

from collections.abc import Mapping
from typing import Any, ClassVar

from rehearsal.provider.aws import only, tag_list, tag_map
from rehearsal.provider.resource import TAGS, Property, ResourceType, kept_in_state, same_json
from rehearsal.provider.wire import Properties


class Repository(ResourceType):
    def set_mutability(self, resource_id: str, _old: Properties, new: Properties) -> None:
        self.aws.ecr.put_image_tag_mutability(repositoryName=resource_id, imageTagMutability=new["imageTagMutability"])

    def set_scanning(self, resource_id: str, _old: Properties, new: Properties) -> None:
        self.aws.ecr.put_image_scanning_configuration(
            repositoryName=resource_id, imageScanningConfiguration=new["imageScanningConfiguration"]
        )

    name = "aws:ecr/repository:Repository"
    not_found = frozenset({"RepositoryNotFoundException"})
    inputs: ClassVar = {
        "name": Property(required=True, replaces=True),
        "imageTagMutability": Property(default="MUTABLE", update=set_mutability),
        "imageScanningConfiguration": Property(
            default={"scanOnPush": False}, update=set_scanning, fields={"scanOnPush": Property(required=True)}
        ),
        "encryptionConfigurations": Property(replaces=True, fields={"encryptionType": Property(required=True)}),
        "forceDelete": Property(default=False, update=kept_in_state),
        "tags": TAGS,
    }
    outputs = frozenset({"arn", "registryId", "repositoryUrl"})

    def create(self, new: Properties) -> str:
        encryption: Any = {}
        if "encryptionConfigurations" in new:
            encryption["encryptionConfiguration"] = only(new["encryptionConfigurations"])
        self.aws.ecr.create_repository(
            repositoryName=new["name"],
            imageTagMutability=new["imageTagMutability"],
            imageScanningConfiguration=new["imageScanningConfiguration"],
            tags=tag_list(new["tags"]),
            **encryption,
        )
        return str(new["name"])

    def read(self, resource_id: str, known: Properties) -> Properties:
        repository = only(self.aws.ecr.describe_repositories(repositoryNames=[resource_id])["repositories"])
        arn = repository["repositoryArn"]
        return {
            "name": repository["repositoryName"],
            "imageTagMutability": repository["imageTagMutability"],
            "imageScanningConfiguration": dict(repository["imageScanningConfiguration"]),
            "encryptionConfigurations": [dict(repository["encryptionConfiguration"])],
            "tags": tag_map(self.aws.ecr.list_tags_for_resource(resourceArn=arn)["tags"]),
            "arn": arn,
            "registryId": repository["registryId"],
            "repositoryUrl": repository["repositoryUri"],
        }

    def delete(self, resource_id: str, old: Properties) -> None:
        self.aws.ecr.delete_repository(repositoryName=resource_id, force=old["forceDelete"])

    def tag(self, resource_id: str, tags: Mapping[str, str]) -> None:
        self.aws.ecr.tag_resource(resourceArn=self._arn(resource_id), tags=tag_list(tags))

    def untag(self, resource_id: str, keys: list[str]) -> None:
        self.aws.ecr.untag_resource(resourceArn=self._arn(resource_id), tagKeys=keys)

    def _arn(self, name: str) -> str:
        return self.aws.arn("ecr", f"repository/{name}")


class LifecyclePolicy(ResourceType):
    name = "aws:ecr/lifecyclePolicy:LifecyclePolicy"
    not_found = frozenset({"RepositoryNotFoundException", "LifecyclePolicyNotFoundException"})
    inputs: ClassVar = {
        "repository": Property(required=True, replaces=True),
        "policy": Property(required=True, replaces=True, same=same_json),
    }
    outputs = frozenset({"registryId"})

    def create(self, new: Properties) -> str:
        self.aws.ecr.put_lifecycle_policy(repositoryName=new["repository"], lifecyclePolicyText=new["policy"])
        return str(new["repository"])

    def read(self, resource_id: str, known: Properties) -> Properties:
        answer = self.aws.ecr.get_lifecycle_policy(repositoryName=resource_id)
        return {
            "repository": answer["repositoryName"],
            "policy": answer["lifecyclePolicyText"],
            "registryId": answer["registryId"],
        }

    def delete(self, resource_id: str, old: Properties) -> None:
        self.aws.ecr.delete_lifecycle_policy(repositoryName=resource_id)


RESOURCES: tuple[type[ResourceType], ...] = (Repository, LifecyclePolicy)
