"""Whose credentials the metadata service hands out."""

from __future__ import annotations

from typing import Any

from rehearsal.cloud.errors import ApiError
from rehearsal.cloud.iam import trusts_service
from rehearsal.cloud.world import World

_EC2 = "ec2.amazonaws.com"
_TROUBLESHOOTING = (
    "https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_iam-ec2.html#troubleshoot_iam-ec2_errors-info-doc"
)


def ec2_is_trusted(world: World, role: Any) -> None:
    """The trust policy of an instance profile's role lets the service ec2.amazonaws.com assume the role.

    Sources: https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_iam-ec2.html; for the answer
    https://github.com/aws/aws-cli/issues/2060
    """
    policies = world.role_policies(role)
    if policies is None or not trusts_service(policies.trust, _EC2):
        # The request itself succeeds: it is the document that says no.
        message = f"EC2 cannot assume the role {role.name}.  Please see documentation at {_TROUBLESHOOTING}."
        raise ApiError(200, "AssumeRoleUnauthorizedAccess", message)
