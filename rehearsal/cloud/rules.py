"""The rules that the cloud adds to moto: each a function of its own, in the order in which they are applied.

A rule looks at a parsed request and raises `ApiError` when AWS would refuse it; its docstring says where AWS
says so.
"""

from __future__ import annotations

from collections.abc import Callable

from rehearsal.cloud import errors
from rehearsal.cloud.credentials import Credential
from rehearsal.cloud.errors import ApiError
from rehearsal.cloud.iam import Action, denied_message
from rehearsal.cloud.requests import ApiRequest
from rehearsal.cloud.world import World

Rule = Callable[[World, ApiRequest], None]


def key_is_known(world: World, request: ApiRequest) -> None:
    """The access key has been issued here, and a session's token comes with it and belongs to it.

    The signature itself is not verified: a client that has the key id and the token has the secret as well,
    and what is rehearsed here is permissions, not cryptography.

    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_temp_use-resources.html (the token
    is needed with temporary credentials); for the codes see `errors.invalid_key` and `errors.missing_token`.
    """
    if request.access_key_id is None:
        raise errors.missing_token(request.service)
    credential = world.keyring.find(request.access_key_id)
    if credential is None:
        raise errors.invalid_key(request.service, request.access_key_id)
    if credential.token is None:
        if request.token:
            raise errors.invalid_token(request.service)
    elif not request.token:
        raise errors.invalid_key(request.service, request.access_key_id)
    elif request.token != credential.token:
        raise errors.invalid_token(request.service)
    request.credential = credential


def session_is_alive(_world: World, request: ApiRequest) -> None:
    """The session has not ended. Source: see `errors.expired_token`."""
    if _credential(request).expired:
        raise errors.expired_token(request.service)


def action_is_allowed(world: World, request: ApiRequest) -> None:
    """IAM allows every action that the request needs.

    An AssumeRole is decided with the role's trust policy where it is answered (`sts.assume_role`).

    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
    """
    credential = _credential(request)
    if (request.service, request.operation) == ("sts", "AssumeRole"):
        return
    if credential.principal.unrestricted and request.service != "s3":
        return
    actions = request.actions()
    if actions is None:
        if credential.principal.unrestricted:
            return
        raise ApiError(
            501,
            "NotImplemented",
            f"The rehearsal does not know which IAM action {request.service} "
            f"{request.operation or request.method} needs, "
            "so it cannot decide whether a role may do it: add it to rehearsal/cloud/requests.py",
        )
    for action in actions:
        _require(world, request, credential, action)


def missing_key_is_hidden(world: World, request: ApiRequest) -> None:
    """Without s3:ListBucket a key that does not exist is 403, with it 404.

    Source: https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html (and HeadObject),
    "Permissions".
    """
    if request.service != "s3" or request.operation != "GetObject":
        return
    bucket = world.backends.bucket(request.bucket)
    if bucket is not None and request.key not in bucket.keys:
        _require(world, request, _credential(request), Action("s3:ListBucket", f"arn:aws:s3:::{request.bucket}"))


RULES: tuple[Rule, ...] = (key_is_known, session_is_alive, action_is_allowed, missing_key_is_hidden)


def _credential(request: ApiRequest) -> Credential:
    if request.credential is None:
        raise AssertionError("key_is_known comes first")
    return request.credential


def _require(world: World, request: ApiRequest, credential: Credential, action: Action) -> None:
    is_s3 = request.service == "s3"
    bucket = world.backends.bucket(request.bucket) if is_s3 and request.bucket else None
    instance = world.backends.instance_at(request.source_address) if is_s3 else None
    decision = world.decide(
        credential,
        action,
        resource_policy=bucket.policy.decode() if bucket is not None and bucket.policy else None,
        endpoint=world.backends.s3_endpoint(instance) if instance is not None else None,
        secure=request.secure,
    )
    if not decision.allowed:
        message = denied_message(credential.principal.arn, action, decision, quoted=is_s3)
        raise errors.access_denied(request.service, message)
