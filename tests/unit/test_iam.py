"""The IAM documents: what they allow, exactly."""

from __future__ import annotations

from typing import Any

import pytest

from infra import iam
from infra.naming import Names
from infra.settings import CACHE_PREFIX_LENGTH

ACCOUNT = "123456789012"
NAMES = Names("foundation", ACCOUNT, "us-east-1")
BUCKET = "arn:aws:s3:::rocm-build-box-foundation-123456789012-us-east-1"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/rocm-build-box/rocm-build-box-foundation"

DOCUMENTS = {
    "box trust": iam.box_role_trust(),
    "box policy": iam.box_role_policy(NAMES),
    "cache trust": iam.cache_role_trust(NAMES, []),
    "cache policy": iam.cache_role_policy(NAMES, "rocm"),
    "session policy": iam.session_policy(NAMES.bucket, "rocm", "vpce-1"),
    "bucket policy": iam.bucket_policy(NAMES),
}


def granted(document: dict[str, Any]) -> set[tuple[str, str]]:
    """Return every pair of action and resource that a document allows."""
    return {
        (action, resource)
        for statement in document["Statement"]
        if statement["Effect"] == "Allow"
        for action in statement["Action"]
        for resource in statement["Resource"]
    }


def test_box_role_may_do_this_and_nothing_else() -> None:
    repository = f"arn:aws:ecr:us-east-1:{ACCOUNT}:repository/rocm-build-box/foundation"
    logs = f"arn:aws:logs:us-east-1:{ACCOUNT}:log-group:/rocm-build-box/foundation:*"
    assert granted(iam.box_role_policy(NAMES)) == {
        ("sts:AssumeRole", f"{ROLE}-cache"),
        ("s3:GetObject", f"{BUCKET}/contexts/*"),
        ("s3:PutObject", f"{BUCKET}/builds/*"),
        ("logs:CreateLogStream", logs),
        ("logs:PutLogEvents", logs),
        ("ecr:GetAuthorizationToken", "*"),
        ("ecr:BatchCheckLayerAvailability", repository),
        ("ecr:BatchGetImage", repository),
        ("ecr:CompleteLayerUpload", repository),
        ("ecr:GetDownloadUrlForLayer", repository),
        ("ecr:InitiateLayerUpload", repository),
        ("ecr:PutImage", repository),
        ("ecr:UploadLayerPart", repository),
    }


def test_cache_role_may_do_this_and_nothing_else() -> None:
    document = iam.cache_role_policy(NAMES, "team/rocm")
    assert granted(document) == {
        ("s3:ListBucket", BUCKET),
        ("s3:GetObject", f"{BUCKET}/team/rocm/*"),
        ("s3:PutObject", f"{BUCKET}/team/rocm/*"),
    }
    # A condition on s3:prefix would not hold for a GetObject, and a missing key would be 403 again.
    assert not any("Condition" in statement for statement in document["Statement"])


def test_a_session_has_the_roles_actions_and_only_through_the_endpoint() -> None:
    session = iam.session_policy(NAMES.bucket, "rocm", "vpce-1")
    assert granted(session) == granted(iam.cache_role_policy(NAMES, "rocm"))
    assert [statement["Condition"] for statement in session["Statement"]] == [
        {"StringEquals": {"aws:SourceVpce": "vpce-1"}},
        {"StringEquals": {"aws:SourceVpce": "vpce-1"}},
    ]


def test_the_longest_session_policy_fits_into_assume_role() -> None:
    # https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
    longest = iam.session_policy("b" * 63, "p" * CACHE_PREFIX_LENGTH, f"vpce-{'0' * 17}")
    assert len(iam.render(longest)) <= 2048


def test_who_may_be_the_box() -> None:
    (statement,) = iam.box_role_trust()["Statement"]
    assert statement["Principal"] == {"Service": "ec2.amazonaws.com"}
    assert statement["Action"] == ["sts:AssumeRole"]


def test_who_may_use_the_cache() -> None:
    (statement,) = iam.cache_role_trust(NAMES, ["arn:aws:iam::123456789012:user/ci"])["Statement"]
    assert statement == {
        "Sid": "NamedPrincipalsOfThisAccount",
        "Effect": "Allow",
        "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
        "Action": ["sts:AssumeRole"],
        "Condition": {"ArnEquals": {"aws:PrincipalArn": [f"{ROLE}-box", "arn:aws:iam::123456789012:user/ci"]}},
    }


def test_bucket_policy_allows_nothing_and_refuses_plain_http() -> None:
    (statement,) = iam.bucket_policy(NAMES)["Statement"]
    assert (statement["Effect"], statement["Principal"], statement["Action"]) == ("Deny", "*", ["s3:*"])
    assert statement["Resource"] == [BUCKET, f"{BUCKET}/*"]
    assert statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}


def test_sessions_last_what_the_decisions_say() -> None:
    assert (iam.CACHE_ROLE_SESSION_SECONDS, iam.BOX_ROLE_SESSION_SECONDS) == (43_200, 3_600)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_allowed_action_is_a_wildcard(name: str) -> None:
    allowed = [s for s in DOCUMENTS[name]["Statement"] if s["Effect"] == "Allow"]
    assert not [action for statement in allowed for action in statement["Action"] if "*" in action]


def test_every_statement_is_argued_and_no_argument_is_left_over() -> None:
    sids = {statement["Sid"] for document in DOCUMENTS.values() for statement in document["Statement"]}
    assert iam.REASONS.keys() == sids


def test_an_unchanged_document_renders_to_the_same_text() -> None:
    document = iam.bucket_policy(NAMES)
    assert iam.render(dict(reversed(document.items()))) == iam.render(document)
