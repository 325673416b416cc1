"""STS, answered by the cloud itself, because it owns the sessions."""

from __future__ import annotations

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
DEFAULT_SESSION = 3600
_KNOWN_PARAMETERS = frozenset({"Action", "Version", "RoleArn", "RoleSessionName", "DurationSeconds", "Policy"})


def get_caller_identity(_world: World, _request: ApiRequest, credential: Credential) -> bytes:
    """Say who holds a credential; needs no permission.

    Source: https://docs.aws.amazon.com/STS/latest/APIReference/API_GetCallerIdentity.html
    """
    principal = credential.principal
    return _answer("GetCallerIdentity", {"Arn": principal.arn, "UserId": principal.user_id, "Account": ACCOUNT})


def asked_seconds(request: ApiRequest) -> int:
    """How long a session AssumeRole is asked for."""
    return int(request.parameters.get("DurationSeconds", DEFAULT_SESSION))


def assume_role(world: World, request: ApiRequest, credential: Credential) -> bytes:
    """Start a session of a role; whether it may be is for the rules (`rehearsal.cloud.rules.sts`).

    Source: https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html

    Raises:
        ApiError: 501 for a parameter that the rehearsal does not know.
    """
    asked = request.parameters
    unknown = sorted(asked.keys() - _KNOWN_PARAMETERS)
    if unknown:
        raise ApiError(501, "NotImplemented", f"The rehearsal does not know AssumeRole with {unknown}")
    role = world.backends.role(asked["RoleArn"])
    if role is None:
        action = Action("sts:AssumeRole", asked["RoleArn"])
        raise errors.access_denied("sts", denied_message(credential.principal.arn, action, Decision(allowed=False)))
    session = world.keyring.issue_session(
        role.arn,
        role.id,
        asked["RoleSessionName"],
        timedelta(seconds=asked_seconds(request)),
        session_policy=asked.get("Policy"),
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


def _answer(operation: str, result: Mapping[str, Any]) -> bytes:
    content = {f"{operation}Result": result, "ResponseMetadata": {"RequestId": secrets.token_hex(16)}}
    root = document(f"{operation}Response", content, QUERY_NAMESPACES["sts"])
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))
