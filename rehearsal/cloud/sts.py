"""STS, answered by the cloud itself, because it owns the sessions."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from xml.etree import ElementTree

from rehearsal.cloud import ACCOUNT, errors
from rehearsal.cloud.credentials import Credential
from rehearsal.cloud.errors import QUERY_NAMESPACES, ApiError
from rehearsal.cloud.iam import Action, Decision, denied_message
from rehearsal.cloud.requests import ApiRequest
from rehearsal.cloud.world import World
from rehearsal.cloud.xml import document

# https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
SHORTEST_SESSION = 900
LONGEST_SESSION = 43200
DEFAULT_SESSION = 3600
LONGEST_CHAINED_SESSION = 3600
LONGEST_SESSION_POLICY = 2048
_SESSION_NAME = re.compile(r"[\w+=,.@-]{2,64}", re.ASCII)
_KNOWN_PARAMETERS = frozenset({"Action", "Version", "RoleArn", "RoleSessionName", "DurationSeconds", "Policy"})


def get_caller_identity(_world: World, _request: ApiRequest, credential: Credential) -> bytes:
    """Say who holds a credential; needs no permission.

    Source: https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
    """
    principal = credential.principal
    return _answer("GetCallerIdentity", {"Arn": principal.arn, "UserId": principal.user_id, "Account": ACCOUNT})


def assume_role(world: World, request: ApiRequest, credential: Credential) -> bytes:
    """Start a session of a role, if its trust policy and the caller's own policies allow it.

    A session that asks for another one (role chaining) gets at most an hour, and asking for more fails.

    Sources: https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html and
    https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles.html#iam-term-role-chaining

    Raises:
        ApiError: as AWS answers; 501 for a parameter that the rehearsal does not know.
        UnsupportedPolicyError: a policy uses something that the evaluator does not know.
    """
    asked = request.parameters
    unknown = sorted(asked.keys() - _KNOWN_PARAMETERS)
    if unknown:
        raise ApiError(501, "NotImplemented", f"The rehearsal does not know AssumeRole with {unknown}")
    role_arn, name, duration = _validated(asked)
    role = world.backends.role(role_arn)
    action = Action("sts:AssumeRole", role_arn)
    if role is None:
        # AWS does not say whether a role exists.
        raise errors.access_denied("sts", denied_message(credential.principal.arn, action, Decision(allowed=False)))
    decision = world.decide(credential, action, resource_policy=role.assume_role_policy_document, trust=True)
    if not decision.allowed:
        raise errors.access_denied("sts", denied_message(credential.principal.arn, action, decision))
    if credential.principal.role_arn is not None and duration > LONGEST_CHAINED_SESSION:
        raise _invalid(
            "The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining."
        )
    if duration > int(role.max_session_duration):
        raise _invalid("The requested DurationSeconds exceeds the MaxSessionDuration set for this role.")
    session = world.keyring.issue_session(
        role.arn, role.id, name, timedelta(seconds=duration), session_policy=asked.get("Policy")
    )
    return _answer(
        "AssumeRole",
        {
            "AssumedRoleUser": {"AssumedRoleId": session.principal.user_id, "Arn": session.principal.arn},
            "Credentials": {
                "AccessKeyId": session.access_key_id,
                "SecretAccessKey": session.secret_access_key,
                "SessionToken": session.token,
                "Expiration": f"{session.expires:%Y-%m-%dT%H:%M:%SZ}",
            },
            "PackedPolicySize": 6,
        },
    )


def _validated(asked: Mapping[str, Any]) -> tuple[str, str, int]:
    role_arn, name = asked.get("RoleArn", ""), asked.get("RoleSessionName", "")
    if not role_arn:
        raise _constraint("", "roleArn", "Member must not be null")
    if not _SESSION_NAME.fullmatch(name):
        raise _constraint(name, "roleSessionName", r"Member must satisfy regular expression pattern: [\w+=,.@-]*")
    duration = int(asked.get("DurationSeconds", DEFAULT_SESSION))
    for within, words in (
        (duration >= SHORTEST_SESSION, f"greater than or equal to {SHORTEST_SESSION}"),
        (duration <= LONGEST_SESSION, f"less than or equal to {LONGEST_SESSION}"),
    ):
        if not within:
            raise _constraint(str(duration), "durationSeconds", f"Member must have value {words}")
    policy = asked.get("Policy")
    if policy is not None:
        if len(policy) > LONGEST_SESSION_POLICY:
            limit = f"Member must have length less than or equal to {LONGEST_SESSION_POLICY}"
            raise _constraint(policy, "policy", limit)
        try:
            json.loads(policy)
        except ValueError as error:
            raise ApiError(400, "MalformedPolicyDocument", f"This policy contains invalid Json: {error}") from error
    return role_arn, name, duration


def _invalid(message: str) -> ApiError:
    return ApiError(400, "ValidationError", message)


def _constraint(value: str, member: str, constraint: str) -> ApiError:
    return _invalid(
        f"1 validation error detected: Value '{value}' at '{member}' failed to satisfy constraint: {constraint}"
    )


def _answer(operation: str, result: Mapping[str, Any]) -> bytes:
    content = {f"{operation}Result": result, "ResponseMetadata": {"RequestId": secrets.token_hex(16)}}
    root = document(f"{operation}Response", content, QUERY_NAMESPACES["sts"])
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))
