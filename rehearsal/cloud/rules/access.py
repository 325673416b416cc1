"""Who may ask what, and with which credentials."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rehearsal.cloud import errors
from rehearsal.cloud.credentials import Credential
from rehearsal.cloud.errors import ApiError
from rehearsal.cloud.iam import Action, denied_message
from rehearsal.cloud.requests import ApiRequest
from rehearsal.cloud.world import World

# S3 says its limit in its answer (MaxAllowedSkewMilliseconds 900000), EC2 in its list of errors.
_LONGEST_SKEW = timedelta(minutes=5)
_LONGER_SKEW = timedelta(minutes=15)
_TIME_FORMAT = "%Y%m%dT%H%M%SZ"


def key_is_known(_world: World, request: ApiRequest) -> None:
    """The access key has been issued, and a session's token comes with it and belongs to it.

    The signature itself is not verified: a client that has the key id and the token has the secret as well,
    and what is rehearsed here is permissions, not cryptography.

    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_temp_use-resources.html (the token
    is needed with temporary credentials); for the codes see `errors.invalid_key` and `errors.missing_token`:
    https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
    """
    if request.access_key_id is None:
        raise errors.missing_token(request.service)
    credential = request.credential
    if credential is None:
        raise errors.invalid_key(request.service, request.access_key_id)
    if credential.token is None:
        if request.token:
            raise errors.invalid_token(request.service)
    elif not request.token:
        raise errors.invalid_key(request.service, request.access_key_id)
    elif request.token != credential.token:
        raise errors.invalid_token(request.service)


def clock_is_right(_world: World, request: ApiRequest) -> None:
    """A request was signed within the last (or the next) five minutes, fifteen for S3 and EC2.

    Only the headers of a request are looked at: an address signed beforehand says itself how long it holds.

    Sources: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_aws-signing.html,
    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html; for the answers
    https://github.com/aws/aws-sdk-php/issues/612 and https://github.com/convox/rack/issues/235
    """
    signed = request.header("x-amz-date")
    if signed is None:
        return
    try:
        then = datetime.strptime(signed, _TIME_FORMAT).replace(tzinfo=UTC)
    except ValueError as error:
        message = f"Date must be in ISO-8601 'basic format'. Got '{signed}'."
        raise ApiError(400, "IncompleteSignature", message) from error
    now = datetime.now(UTC)
    longest = _LONGER_SKEW if request.service in ("s3", "ec2") else _LONGEST_SKEW
    if abs(now - then) > longest:
        raise errors.wrong_clock(request.service, then, now, longest)


def session_is_alive(_world: World, request: ApiRequest) -> None:
    """The session has not ended.

    Source: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html and as for `errors.expired_token`.
    """
    if request.credential is not None and request.credential.expired:
        raise errors.expired_token(request.service)


def action_is_allowed(world: World, request: ApiRequest) -> None:
    """IAM allows every action that the request needs: identity, session, resource and endpoint policies and boundaries.

    An AssumeRole is decided with the role's trust policy, by `sts.role_is_trusted`.

    Sources: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html,
    https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html
    """
    credential = request.credential
    if credential is None or (request.service, request.operation) == ("sts", "AssumeRole"):
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
    if request.credential is None or request.service != "s3" or request.operation != "GetObject":
        return
    bucket = world.backends.bucket(request.bucket)
    if bucket is not None and request.key not in bucket.keys:
        _require(world, request, request.credential, Action("s3:ListBucket", f"arn:aws:s3:::{request.bucket}"))


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
