"""Who becomes whom, and for how long."""

from __future__ import annotations

import json
import re

from rehearsal.cloud import errors
from rehearsal.cloud.errors import ApiError
from rehearsal.cloud.iam import Action, Decision, denied_message
from rehearsal.cloud.requests import ApiRequest
from rehearsal.cloud.sts import asked_seconds
from rehearsal.cloud.world import World

SHORTEST_SESSION = 900
LONGEST_SESSION = 43200
LONGEST_CHAINED_SESSION = 3600
LONGEST_SESSION_POLICY = 2048
_SESSION_NAME = re.compile(r"[\w+=,.@-]{2,64}", re.ASCII)


def session_request_is_valid(_world: World, request: ApiRequest) -> None:
    """AssumeRole's arguments are in range: 900 to 43,200 seconds, a session policy of at most 2,048 characters.

    AWS also packs the session policy into a binary form with a limit of its own, whose size it does not document;
    that limit is not rehearsed.

    Source: https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
    """
    if not _is_assume_role(request):
        return
    asked = request.parameters
    if not asked.get("RoleArn"):
        raise errors.constraint("", "roleArn", "Member must not be null")
    name = asked.get("RoleSessionName", "")
    if not _SESSION_NAME.fullmatch(name):
        words = r"Member must satisfy regular expression pattern: [\w+=,.@-]*"
        raise errors.constraint(name, "roleSessionName", words)
    errors.require_range(asked_seconds(request), "durationSeconds", SHORTEST_SESSION, LONGEST_SESSION)
    policy = asked.get("Policy")
    if policy is None:
        return
    errors.require_length(policy, "policy", LONGEST_SESSION_POLICY)
    try:
        json.loads(policy)
    except ValueError as error:
        raise ApiError(400, "MalformedPolicyDocument", f"This policy contains invalid Json: {error}") from error


def role_is_trusted(world: World, request: ApiRequest) -> None:
    """The role's trust policy, its conditions, and the caller's own policies allow sts:AssumeRole.

    AWS does not say whether a role exists: the answer is the same.

    Sources: https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_roles.html,
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html
    """
    credential = request.credential
    if credential is None or not _is_assume_role(request):
        return
    role_arn = request.parameters["RoleArn"]
    role = world.backends.role(role_arn)
    policies = world.role_policies(role) if role is not None else None
    action = Action("sts:AssumeRole", role_arn)
    decision = Decision(allowed=False)
    if policies is not None:
        decision = world.decide(credential, action, resource_policy=policies.trust, trust=True, secure=request.secure)
    if not decision.allowed:
        raise errors.access_denied("sts", denied_message(credential.principal.arn, action, decision))


def chained_session_is_short(_world: World, request: ApiRequest) -> None:
    """A session that assumes a role (role chaining) gets at most 3,600 seconds; asking for more fails.

    Sources: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles.html#iam-term-role-chaining; for the answer
    https://github.com/aws-actions/configure-aws-credentials/issues/79
    """
    credential = request.credential
    if credential is None or not _is_assume_role(request) or credential.principal.role_arn is None:
        return
    if asked_seconds(request) > LONGEST_CHAINED_SESSION:
        raise errors.invalid(
            "The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining."
        )


def session_fits_role(world: World, request: ApiRequest) -> None:
    """A session is no longer than the role's own MaxSessionDuration.

    Sources: https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html; for the answer
    https://github.com/kreuzwerker/awsu/issues/27
    """
    if request.credential is None or not _is_assume_role(request):
        return
    role = world.backends.role(request.parameters["RoleArn"])
    if role is not None and asked_seconds(request) > int(role.max_session_duration):
        raise errors.invalid("The requested DurationSeconds exceeds the MaxSessionDuration set for this role.")


def _is_assume_role(request: ApiRequest) -> bool:
    return (request.service, request.operation) == ("sts", "AssumeRole")
