"""Every IAM document of the project, as plain dictionaries built from plain strings.

Nothing here imports Pulumi: the documents hold only names from `infra.naming`, so they are whole at preview,
on the page `docs/iam.md` and in tests. All are for the partition `aws`; ARNs in other partitions begin
differently. Each statement has a Sid, and `REASONS` argues it; the page prints both side by side.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from infra.naming import BUILDS, CONTEXTS, Names

Document = dict[str, Any]

# https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateRole.html: 3600 to 43200 seconds.
CACHE_ROLE_SESSION_SECONDS = 43_200
# Only EC2 assumes the box's role, and this limit does not apply to an instance profile; the lowest value is
# the narrowest for whoever might be let in one day.
BOX_ROLE_SESSION_SECONDS = 3_600

# What sccache's S3 client calls, read in its source. It never deletes, and it uploads an object in one piece.
CACHE_BUCKET_ACTIONS = ("s3:ListBucket",)
CACHE_OBJECT_ACTIONS = ("s3:GetObject", "s3:PutObject")

# https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-push-iam.html, and the two that a pull adds.
ECR_ACTIONS = (
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:CompleteLayerUpload",
    "ecr:GetDownloadUrlForLayer",
    "ecr:InitiateLayerUpload",
    "ecr:PutImage",
    "ecr:UploadLayerPart",
)

REASONS: Mapping[str, str] = {
    "Ec2StartsTheBox": "EC2 alone, for an instance that was started with the instance profile.",
    "AssumeTheCacheRole": (
        "The credential service on the box vends sessions of this one role to build steps, and of no other."
    ),
    "ReadTheBuildContext": (
        "The archive of the working tree that the box was started for. Read only: a box that could write here could "
        "choose what the next box runs."
    ),
    "WriteStatusAndLog": (
        "Status and log of a build. Write only: one build has no business reading the log of another."
    ),
    "FollowTheLog": (
        "The live log. The log group exists already, so `logs:CreateLogGroup` is not needed. CloudWatch Logs wants the "
        "trailing `:*` on a log group in a policy."
    ),
    "LogInToTheRegistry": (
        "A login to ECR belongs to no repository, so AWS takes only `*` here. What the login opens is the next "
        "statement."
    ),
    "PushAndPullImages": "Push and pull (images, sibling inputs, registry cache) in the one repository. No delete.",
    "NamedPrincipalsOfThisAccount": (
        "The box's role, and the principals of the setting `cacheRolePrincipals`. The principal is the account and the "
        "names stand in a condition, because a trust that names a role as principal is stored as that role's unique id "
        "and stops working when the role is made anew under the same name. Each of them also needs `sts:AssumeRole` in "
        "a policy of its own."
    ),
    "TellMissingFromForbidden": (
        "Without `s3:ListBucket` S3 answers 403 instead of 404 for a key that is not there, which sccache takes for a "
        "broken store. It has no condition on `s3:prefix`: a GetObject request carries no such key, so the condition "
        "would not hold for the very request that this statement is for."
    ),
    "ReadAndWriteTheCache": (
        "Compile results under the cache prefix and nowhere else. No delete: nothing that a build step holds can empty "
        "the cache."
    ),
    "RefusePlainHttp": "Whoever asks, a request without TLS is refused.",
}
"""Why each statement is there, by its Sid."""


def render(document: Document) -> str:
    """Return the JSON that is sent to AWS, with sorted keys so that a document that did not change shows no diff."""
    return json.dumps(document, sort_keys=True)


def _document(*statements: dict[str, Any]) -> Document:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def _allow(sid: str, actions: Sequence[str], *resources: str) -> dict[str, Any]:
    return {"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": list(resources)}


def box_role_trust() -> Document:
    """Return who may be the box."""
    return _document(
        {
            "Sid": "Ec2StartsTheBox",
            "Effect": "Allow",
            "Principal": {"Service": "ec2.amazonaws.com"},
            "Action": ["sts:AssumeRole"],
        }
    )


def box_role_policy(names: Names) -> Document:
    """Return what the box itself may do, outside the build steps.

    Build steps do not get this role: it is behind the metadata service, which they cannot reach.
    """
    return _document(
        _allow("AssumeTheCacheRole", ["sts:AssumeRole"], names.cache_role_arn),
        _allow("ReadTheBuildContext", ["s3:GetObject"], f"{names.bucket_arn}/{CONTEXTS}/*"),
        _allow("WriteStatusAndLog", ["s3:PutObject"], f"{names.bucket_arn}/{BUILDS}/*"),
        # https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_LogGroup.html, field `arn`.
        _allow("FollowTheLog", ["logs:CreateLogStream", "logs:PutLogEvents"], f"{names.log_group_arn}:*"),
        _allow("LogInToTheRegistry", ["ecr:GetAuthorizationToken"], "*"),
        _allow("PushAndPullImages", ECR_ACTIONS, names.repository_arn),
    )


def cache_role_trust(names: Names, principals: Sequence[str]) -> Document:
    """Return who may use the cache: the box, and `principals`, ARNs of roles or users of the same account.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html has why the
    principal is the account: a role named there is stored as its unique id.
    """
    return _document(
        {
            "Sid": "NamedPrincipalsOfThisAccount",
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:aws:iam::{names.account}:root"},
            "Action": ["sts:AssumeRole"],
            "Condition": {"ArnEquals": {"aws:PrincipalArn": [names.box_role_arn, *principals]}},
        }
    )


def cache_role_policy(names: Names, prefix: str) -> Document:
    """Return what the cache role may do, with the compile cache under `prefix` (no slash at its ends)."""
    return _cache_access(names.bucket_arn, prefix)


def session_policy(bucket: str, prefix: str, endpoint: str) -> Document:
    """Return what a session that the box vends may do: the cache role's actions, from inside the VPC only.

    What is allowed is what both this and the role's policy allow. A key that leaves the box is of no use
    elsewhere: a request that does not come through the VPC's S3 endpoint `endpoint` carries another
    `aws:SourceVpce`, or none.
    """
    document = _cache_access(f"arn:aws:s3:::{bucket}", prefix)
    for statement in document["Statement"]:
        statement["Condition"] = {"StringEquals": {"aws:SourceVpce": endpoint}}
    return document


def bucket_policy(names: Names) -> Document:
    """Return what the bucket refuses, whoever asks."""
    return _document(
        {
            "Sid": "RefusePlainHttp",
            "Effect": "Deny",
            "Principal": "*",
            "Action": ["s3:*"],
            "Resource": [names.bucket_arn, f"{names.bucket_arn}/*"],
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        }
    )


def _cache_access(bucket_arn: str, prefix: str) -> Document:
    return _document(
        _allow("TellMissingFromForbidden", CACHE_BUCKET_ACTIONS, bucket_arn),
        _allow("ReadAndWriteTheCache", CACHE_OBJECT_ACTIONS, f"{bucket_arn}/{prefix}/*"),
    )
