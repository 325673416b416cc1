"""The evaluator by itself: each case is a small document and what AWS says to it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rehearsal.cloud.iam import Action, Caller, Policies, UnsupportedPolicyError, decide, denied_message, trusts_service

SESSION = "arn:aws:sts::123456789012:assumed-role/box/i-1"
ROLE = "arn:aws:iam::123456789012:role/path/box"
CALLER = Caller(arn=SESSION, principal_arn=ROLE, account="123456789012")
GET = Action("s3:GetObject", "arn:aws:s3:::bucket/cache/a/b")
ALLOW_GET = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::bucket/cache/*"}
ROOT = "arn:aws:iam::123456789012:root"


def text(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def reason(policies: Policies, action: Action = GET, **context: str) -> str:
    decision = decide(CALLER, action, policies, {key.replace("_", ":"): value for key, value in context.items()})
    assert decision.allowed is (decision.reason == "")
    return decision.reason


NOT_IN_IDENTITY = "because no identity-based policy allows the s3:GetObject action"


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        (ALLOW_GET, True),
        ({**ALLOW_GET, "Action": "S3:getobject"}, True),
        ({**ALLOW_GET, "Action": ["s3:PutObject", "s3:Get*"]}, True),
        ({**ALLOW_GET, "Action": "s3:GetObject?"}, False),
        ({**ALLOW_GET, "Action": "s3:Get"}, False),
        ({**ALLOW_GET, "Action": "s3:List"}, False),
        ({**ALLOW_GET, "Resource": "arn:aws:s3:::bucket"}, False),
        ({**ALLOW_GET, "Resource": "arn:aws:s3:::Bucket/cache/*"}, False),
        ({**ALLOW_GET, "Resource": "arn:aws:s3:::bucket/c?che/*"}, True),
        ({"Effect": "Allow", "NotAction": "s3:PutObject", "Resource": "*"}, True),
        ({"Effect": "Allow", "NotAction": "s3:Get*", "Resource": "*"}, False),
        ({"Effect": "Allow", "Action": "*", "NotResource": "arn:aws:s3:::bucket/cache/*"}, False),
        ({"Effect": "Allow", "Action": "*", "NotResource": "arn:aws:s3:::other/*"}, True),
    ],
)
def test_identity_policy(statement: dict[str, Any], allowed: bool) -> None:
    assert reason(Policies(identity=[text(statement)])) == ("" if allowed else NOT_IN_IDENTITY)


def test_nothing_is_allowed_by_default() -> None:
    assert reason(Policies()) == NOT_IN_IDENTITY


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("identity", "with an explicit deny in an identity-based policy"),
        ("boundary", "with an explicit deny in a permissions boundary"),
        ("session", "with an explicit deny in a sessions policy"),
        ("resource", "with an explicit deny in a resource-based policy"),
        ("endpoint", "with an explicit deny in a VPC endpoint policy"),
    ],
)
def test_an_explicit_deny_anywhere_wins(place: str, words: str) -> None:
    principal = {"Principal": "*"} if place in ("resource", "endpoint") else {}
    both = text({**ALLOW_GET, **principal}, {**ALLOW_GET, **principal, "Effect": "Deny"})
    documents: dict[str, Any] = {"identity": [text(ALLOW_GET)]}
    documents[place] = [both] if place == "identity" else both
    assert reason(Policies(**documents)) == words


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("boundary", "because no permissions boundary allows the s3:GetObject action"),
        ("session", "because no session policy allows the s3:GetObject action"),
        ("endpoint", "because no VPC endpoint policy allows the s3:GetObject action"),
    ],
)
def test_what_narrows_and_does_not_widen(place: str, words: str) -> None:
    principal = {"Principal": "*"} if place == "endpoint" else {}
    narrow = text({**ALLOW_GET, **principal, "Action": "s3:PutObject"})
    wide = text({**ALLOW_GET, **principal})

    def ask(document: str, *identity: str) -> str:
        documents: dict[str, Any] = {"identity": identity, place: document}
        return reason(Policies(**documents))

    assert ask(narrow, text(ALLOW_GET)) == words
    assert ask(wide, text(ALLOW_GET)) == ""
    assert ask(wide) == NOT_IN_IDENTITY


@pytest.mark.parametrize(
    ("principal", "with_identity", "alone"),
    [
        ("*", True, True),
        ({"AWS": "*"}, True, True),
        ({"AWS": ROLE}, True, True),
        ({"AWS": SESSION}, True, True),
        ({"AWS": ["arn:aws:iam::123456789012:role/other", ROLE]}, True, True),
        ({"AWS": ROOT}, True, False),
        ({"AWS": "123456789012"}, True, False),
        ({"AWS": "arn:aws:iam::999999999999:root"}, False, False),
        ({"AWS": "arn:aws:iam::123456789012:role/box"}, False, False),
        ({"Service": "ec2.amazonaws.com"}, False, False),
    ],
)
def test_trust_policy(principal: Any, with_identity: bool, alone: bool) -> None:
    assume = Action("sts:AssumeRole", "arn:aws:iam::123456789012:role/cache")
    trust = text({"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": principal})
    identity = text({"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": assume.resource})
    assert (reason(Policies(identity=[identity], resource=trust, trust=True), assume) == "") is with_identity
    assert (reason(Policies(resource=trust, trust=True), assume) == "") is alone


def test_trust_policy_that_says_nothing() -> None:
    assume = Action("sts:AssumeRole", "arn:aws:iam::123456789012:role/cache")
    identity = text({"Effect": "Allow", "Action": "*", "Resource": "*"})
    trust = text({"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "ec2.amazonaws.com"}})
    expected = "because no role trust policy allows the sts:AssumeRole action"
    assert reason(Policies(identity=[identity], resource=trust, trust=True), assume) == expected


EC2_SERVICE = "ec2.amazonaws.com"
TRUST_EC2 = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": EC2_SERVICE}}


@pytest.mark.parametrize(
    ("statements", "trusted"),
    [
        ([TRUST_EC2], True),
        ([{**TRUST_EC2, "Principal": {"Service": ["lambda.amazonaws.com", EC2_SERVICE]}}], True),
        ([{**TRUST_EC2, "Principal": {"Service": "lambda.amazonaws.com"}}], False),
        ([{**TRUST_EC2, "Principal": {"AWS": ROOT}}], False),
        ([{**TRUST_EC2, "Action": "sts:TagSession"}], False),
        ([{**TRUST_EC2, "Condition": {"ArnLike": {"aws:PrincipalArn": "*"}}}], False),
        ([TRUST_EC2, {**TRUST_EC2, "Effect": "Deny"}], False),
        ([TRUST_EC2, {**TRUST_EC2, "Effect": "Deny", "Principal": {"Service": "lambda.amazonaws.com"}}], True),
    ],
)
def test_trust_in_a_service(statements: list[dict[str, Any]], trusted: bool) -> None:
    assert trusts_service(text(*statements), EC2_SERVICE) is trusted


def test_services_have_names() -> None:
    with pytest.raises(UnsupportedPolicyError, match="Service is '\\*'"):
        trusts_service(text({**TRUST_EC2, "Principal": {"Service": "*"}}), EC2_SERVICE)


@pytest.mark.parametrize(
    ("condition", "context", "holds"),
    [
        ({"StringEquals": {"aws:SourceVpce": "vpce-1"}}, {"aws_SourceVpce": "vpce-1"}, True),
        ({"StringEquals": {"aws:SourceVpce": "vpce-1"}}, {"aws_SourceVpce": "vpce-2"}, False),
        ({"StringEquals": {"aws:SourceVpce": "vpce-1"}}, {}, False),
        ({"StringEquals": {"aws:sourcevpce": ["vpce-2", "vpce-1"]}}, {"aws_SourceVpce": "vpce-1"}, True),
        ({"StringEquals": {"aws:SourceVpce": "vpce-*"}}, {"aws_SourceVpce": "vpce-1"}, False),
        ({"StringLike": {"aws:SourceVpce": "vpce-*"}}, {"aws_SourceVpce": "vpce-1"}, True),
        ({"StringNotEquals": {"aws:SourceVpce": "vpce-1"}}, {}, True),
        ({"StringNotEquals": {"aws:SourceVpce": "vpce-1"}}, {"aws_SourceVpce": "vpce-1"}, False),
        ({"ArnEquals": {"aws:PrincipalArn": ROLE}}, {}, True),
        ({"ArnLike": {"aws:PrincipalArn": "arn:aws:iam::123456789012:role/path/*"}}, {}, True),
        ({"ArnLike": {"aws:PrincipalArn": "arn:aws:iam::123456789012:role/box"}}, {}, False),
        ({"ArnLike": {"aws:PrincipalArn": SESSION}}, {}, False),
        ({"ArnLike": {"aws:PrincipalArn": "arn:aws:*"}}, {}, False),
        ({"Bool": {"aws:SecureTransport": "true"}}, {"aws_SecureTransport": "true"}, True),
        ({"Bool": {"aws:SecureTransport": True}}, {"aws_SecureTransport": "true"}, True),
        ({"Bool": {"aws:SecureTransport": "false"}}, {"aws_SecureTransport": "true"}, False),
        (
            {"Bool": {"aws:SecureTransport": "true"}, "StringEquals": {"aws:SourceVpce": "vpce-1"}},
            {"aws_SecureTransport": "true", "aws_SourceVpce": "vpce-2"},
            False,
        ),
    ],
)
def test_conditions(condition: dict[str, Any], context: dict[str, str], holds: bool) -> None:
    identity = text({**ALLOW_GET, "Condition": condition})
    assert (reason(Policies(identity=[identity]), GET, **context) == "") is holds


@pytest.mark.parametrize(
    "statement",
    [
        {**ALLOW_GET, "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}},
        {**ALLOW_GET, "Condition": {"StringEquals": {"s3:prefix": "cache/"}}},
        {**ALLOW_GET, "Condition": {"StringEqualsIfExists": {"aws:SourceVpce": "vpce-1"}}},
        {**ALLOW_GET, "NotPrincipal": "*"},
        {**ALLOW_GET, "Principal": "*"},
        {**ALLOW_GET, "Effect": "allow"},
        {**ALLOW_GET, "NotAction": "s3:PutObject"},
        {**ALLOW_GET, "Resource": "arn:aws:s3:::bucket/${aws:username}/*"},
        {"Effect": "Allow", "Action": "s3:GetObject"},
    ],
)
def test_what_is_not_known_is_an_error_and_never_ignored(statement: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedPolicyError):
        reason(Policies(identity=[text(statement)]))


def test_message() -> None:
    decision = decide(CALLER, GET, Policies(), {})
    expected = f"User: {SESSION} is not authorized to perform: s3:GetObject on resource: "
    assert denied_message(SESSION, GET, decision) == f"{expected}{GET.resource} {NOT_IN_IDENTITY}"
    assert denied_message(SESSION, GET, decision, quoted=True) == f'{expected}"{GET.resource}" {NOT_IN_IDENTITY}'
