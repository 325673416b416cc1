"""What a bucket may look like."""

from __future__ import annotations

import ipaddress
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from rehearsal.cloud.errors import ApiError
from rehearsal.cloud.iam import named_principals
from rehearsal.cloud.requests import ApiRequest
from rehearsal.cloud.world import World

LONGEST_BUCKET_POLICY = 20 * 1024
MOST_LIFECYCLE_RULES = 1000
LONGEST_LIFECYCLE_ID = 255
_BUCKET_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_RESERVED_PREFIXES = ("xn--", "sthree-", "amzn-s3-demo-")
_RESERVED_SUFFIXES = ("-s3alias", "--ol-s3", ".mrap", "--x-s3")


def bucket_name_is_valid(_world: World, request: ApiRequest) -> None:
    """A bucket's name is 3 to 63 of a-z, 0-9, dot and hyphen, no address, and has no reserved prefix or suffix.

    Sources: https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html; for the answer
    https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
    """
    if not _is(request, "CreateBucket"):
        return
    name = request.bucket
    if (
        not _BUCKET_NAME.fullmatch(name)
        or ".." in name
        or _is_address(name)
        or name.startswith(_RESERVED_PREFIXES)
        or name.endswith(_RESERVED_SUFFIXES)
    ):
        raise ApiError(400, "InvalidBucketName", "The specified bucket is not valid.", {"BucketName": name})


def lifecycle_is_valid(_world: World, request: ApiRequest) -> None:
    """A lifecycle configuration has at most 1,000 rules, with ids of their own (at most 255 characters) and whole days.

    Sources: https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutBucketLifecycleConfiguration.html,
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/intro-lifecycle-rules.html; for the answers
    https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html and
    https://github.com/noobaa/noobaa-core/pull/8628
    """
    if not _is(request, "PutLifecycleConfiguration"):
        return
    try:
        rules = ElementTree.fromstring(request.body).findall("{*}Rule")  # noqa: S314 # from a client on this machine
    except ElementTree.ParseError:
        return
    if len(rules) > MOST_LIFECYCLE_RULES:
        raise _malformed()
    ids = Counter(rule.findtext("{*}ID") for rule in rules)
    for name, count in ids.items():
        if name and len(name) > LONGEST_LIFECYCLE_ID:
            raise _argument(f"ID length should not exceed allowed limit of {LONGEST_LIFECYCLE_ID}")
        if name and count > 1:
            raise _argument("Rule ID must be unique. Found same ID for more than one rule")
    for rule in rules:
        _require_positive(rule, "Expiration", "Days")
        _require_positive(rule, "AbortIncompleteMultipartUpload", "DaysAfterInitiation")


def bucket_policy_fits(_world: World, request: ApiRequest) -> None:
    """A bucket policy has at most 20 KB.

    AWS normalizes a policy before it measures it; how is not documented, so the text as it came is measured.

    Sources: https://docs.aws.amazon.com/AmazonS3/latest/userguide/add-bucket-policy.html; for the answer
    https://github.com/minio/minio-go/issues/1202 (of a server that follows S3)
    """
    if _is(request, "PutBucketPolicy") and len(request.body) > LONGEST_BUCKET_POLICY:
        raise ApiError(400, "PolicyTooLarge", "Policy exceeds the maximum allowed document size.")


def bucket_policy_is_valid(world: World, request: ApiRequest) -> None:
    """A bucket policy names this bucket and its objects only, and principals that exist.

    Sources: https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucket-policies.html; for the answers
    https://github.com/noobaa/noobaa-core/issues/10058 and https://github.com/cloud-custodian/cloud-custodian/issues/4948
    """
    if not _is(request, "PutBucketPolicy"):
        return
    text = request.body.decode()
    if not all(map(world.principal_exists, named_principals(text))):
        raise ApiError(400, "MalformedPolicy", "Invalid principal in policy")
    arn = f"arn:aws:s3:::{request.bucket}"
    if not all(resource == arn or resource.startswith(f"{arn}/") for resource in _resources(text)):
        raise ApiError(400, "MalformedPolicy", "Policy has invalid resource")


def _is(request: ApiRequest, operation: str) -> bool:
    return (request.service, request.operation) == ("s3", operation)


def _is_address(name: str) -> bool:
    try:
        ipaddress.IPv4Address(name)
    except ValueError:
        return False
    return True


def _resources(policy: str) -> Iterator[str]:
    try:
        statements: Any = json.loads(policy)["Statement"]
    except (KeyError, ValueError):
        return
    for statement in statements if isinstance(statements, list) else [statements]:
        for element in ("Resource", "NotResource"):
            value = statement.get(element, [])
            yield from [value] if isinstance(value, str) else value


def _require_positive(rule: ElementTree.Element, action: str, element: str) -> None:
    text = rule.findtext(f"{{*}}{action}/{{*}}{element}")
    if text is None:
        return
    try:
        number = int(text)
    except ValueError as error:
        raise _malformed() from error
    if number < 1:
        raise _argument(f"'{element}' for {action} action must be a positive integer")


def _malformed() -> ApiError:
    message = "The XML you provided was not well-formed or did not validate against our published schema"
    return ApiError(400, "MalformedXML", message)


def _argument(message: str) -> ApiError:
    return ApiError(400, "InvalidArgument", message)
