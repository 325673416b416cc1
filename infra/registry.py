"""Where the images go: one ECR repository, with the target's name as the tag."""

from __future__ import annotations

import json

import pulumi
import pulumi_aws as aws

from infra.naming import Names, tags

# Every push of a tag leaves the image that had it before without one, tens of gigabytes a build.
UNTAGGED_DAYS = 14


class Registry(pulumi.ComponentResource):
    """An encrypted repository that scans what is pushed and forgets images without a tag.

    Args:
        force_destroy: let `pulumi destroy` remove the repository with its images; otherwise it has to be empty.
    """

    def __init__(
        self, name: str, *, names: Names, force_destroy: bool, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("rocm-build-box:infra:Registry", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        repository = aws.ecr.Repository(
            name,
            name=names.repository,
            # The tags roll: each build moves them, the cache tags too.
            image_tag_mutability="MUTABLE",
            image_scanning_configuration=aws.ecr.RepositoryImageScanningConfigurationArgs(scan_on_push=True),
            encryption_configurations=[aws.ecr.RepositoryEncryptionConfigurationArgs(encryption_type="AES256")],
            force_delete=force_destroy,
            tags=tags(names.stack, name),
            opts=child,
        )
        aws.ecr.LifecyclePolicy(
            name,
            repository=repository.name,
            policy=json.dumps(_lifecycle(), sort_keys=True),
            opts=child,
        )
        self.register_outputs({})


def _lifecycle() -> dict[str, object]:
    """Return the policy that expires images without a tag.

    https://docs.aws.amazon.com/AmazonECR/latest/userguide/lifecycle_policy_parameters.html
    """
    return {
        "rules": [
            {
                "rulePriority": 1,
                "description": f"Images without a tag, after {UNTAGGED_DAYS} days",
                "selection": {
                    "tagStatus": "untagged",
                    "countType": "sinceImagePushed",
                    "countUnit": "days",
                    "countNumber": UNTAGGED_DAYS,
                },
                "action": {"type": "expire"},
            }
        ]
    }
