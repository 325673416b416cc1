"""What a role may look like."""

from __future__ import annotations

from rehearsal.cloud import errors
from rehearsal.cloud.errors import ApiError
from rehearsal.cloud.iam import named_principals
from rehearsal.cloud.requests import ApiRequest
from rehearsal.cloud.world import World

LONGEST_ROLE_NAME = 64
SHORTEST_MAXIMUM, LONGEST_MAXIMUM = 3600, 43200
# IAM counts no white space. The trust policy's quota can be raised to 4,096 on request.
LONGEST_TRUST_POLICY = 2048
LONGEST_INLINE_POLICIES = 10240


def role_name_fits(_world: World, request: ApiRequest) -> None:
    """A role's name has at most 64 characters.

    Source: https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateRole.html
    """
    if (request.service, request.operation) == ("iam", "CreateRole"):
        errors.require_length(request.parameters.get("RoleName", ""), "roleName", LONGEST_ROLE_NAME)


def longest_session_is_in_range(_world: World, request: ApiRequest) -> None:
    """A role's MaxSessionDuration is 3,600 to 43,200 seconds.

    Source: https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateRole.html
    """
    if request.service == "iam" and request.operation in ("CreateRole", "UpdateRole"):
        seconds = int(request.parameters.get("MaxSessionDuration", SHORTEST_MAXIMUM))
        errors.require_range(seconds, "maxSessionDuration", SHORTEST_MAXIMUM, LONGEST_MAXIMUM)


def trust_policy_fits(_world: World, request: ApiRequest) -> None:
    """A role's trust policy has at most 2,048 characters, white space not counted.

    Sources: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html; for the answer
    https://github.com/kubeflow/dashboard/issues/29
    """
    if _size(_trust(request)) > LONGEST_TRUST_POLICY:
        raise ApiError(409, "LimitExceeded", f"Cannot exceed quota for ACLSizePerRole: {LONGEST_TRUST_POLICY}")


def trusted_principals_exist(world: World, request: ApiRequest) -> None:
    """A role or user of this account that a trust policy names as principal exists.

    Nothing is known of other accounts, so their principals are taken.

    Sources: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html; for the answer
    https://github.com/hashicorp/terraform-provider-aws/issues/8905
    """
    for principal in named_principals(_trust(request)):
        if not world.principal_exists(principal):
            raise ApiError(400, "MalformedPolicyDocument", f'Invalid principal in policy: "AWS":"{principal}"')


def inline_policies_fit(world: World, request: ApiRequest) -> None:
    """A role's inline policies have at most 10,240 characters together, white space not counted.

    Sources: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html; for the answer
    https://github.com/serverless/serverless/issues/7643
    """
    if (request.service, request.operation) != ("iam", "PutRolePolicy"):
        return
    name = request.parameters["RoleName"]
    policies = dict(world.backends.inline_policies(name))
    policies[request.parameters["PolicyName"]] = request.parameters["PolicyDocument"]
    if sum(map(_size, policies.values())) > LONGEST_INLINE_POLICIES:
        message = f"Maximum policy size of {LONGEST_INLINE_POLICIES} bytes exceeded for role {name}"
        raise ApiError(409, "LimitExceeded", message)


def _trust(request: ApiRequest) -> str:
    """The trust policy that a request brings, or ""."""
    parameter = {"CreateRole": "AssumeRolePolicyDocument", "UpdateAssumeRolePolicy": "PolicyDocument"}
    if request.service != "iam" or request.operation not in parameter:
        return ""
    return str(request.parameters.get(parameter[request.operation], ""))


def _size(document: str) -> int:
    return len("".join(document.split()))
