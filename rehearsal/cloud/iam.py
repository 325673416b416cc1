"""Decides whether a request is allowed, from policy documents and the facts of the request.

Follows the evaluation logic that AWS documents
(https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html): an explicit deny
in any policy wins; without an allow the answer is no; session policies and permissions boundaries only
narrow. Pure: knows no moto, no HTTP.

A document that uses something not written here (an unknown element, condition operator or condition key)
raises `UnsupportedPolicyError`: a rehearsal that ignored it would promise what it does not know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any

# The condition keys that a request of this rehearsal can carry; a key may be absent from a request.
CONDITION_KEYS = frozenset({"aws:principalarn", "aws:securetransport", "aws:sourcevpce"})

_STATEMENT_ELEMENTS = frozenset(
    {"Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Principal", "Condition"}
)


class UnsupportedPolicyError(Exception):
    """A policy document uses something that this evaluator does not know; the message names it."""


class PolicyKind(Enum):
    """The kinds of policy, in the words of AWS's access-denied messages."""

    IDENTITY = "identity-based policy"
    BOUNDARY = "permissions boundary"
    SESSION = "session policy"
    RESOURCE = "resource-based policy"
    TRUST = "role trust policy"
    ENDPOINT = "VPC endpoint policy"


# https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html ("sessions policy" is
# theirs).
_EXPLICIT_DENY = {
    PolicyKind.IDENTITY: "with an explicit deny in an identity-based policy",
    PolicyKind.BOUNDARY: "with an explicit deny in a permissions boundary",
    PolicyKind.SESSION: "with an explicit deny in a sessions policy",
    PolicyKind.RESOURCE: "with an explicit deny in a resource-based policy",
    PolicyKind.TRUST: "with an explicit deny in the role trust policy",
    PolicyKind.ENDPOINT: "with an explicit deny in a VPC endpoint policy",
}


@dataclass(frozen=True)
class Caller:
    """Who asks.

    Attributes:
        arn: what GetCallerIdentity says: the user's ARN, or the assumed-role session's; of an AWS service that
            asks for itself its name, such as ec2.amazonaws.com.
        principal_arn: `aws:PrincipalArn`: the user's ARN, or for a session the ARN of the *role*, with its
            path.
        account: twelve digits.
    """

    arn: str
    principal_arn: str
    account: str


@dataclass(frozen=True)
class Action:
    """What is asked: an IAM action on one resource.

    Attributes:
        name: service prefix and action, such as `s3:GetObject`.
        resource: an ARN, or `*` for an action that takes no resource.
    """

    name: str
    resource: str


@dataclass(frozen=True)
class Policies:
    """The policies that apply to one request, as JSON texts.

    Attributes:
        identity: those of the caller, inline and attached.
        boundary: the caller's permissions boundary, if it has one.
        session: the session policy given to AssumeRole, if one was.
        resource: the policy of the resource asked for: a bucket policy or a role's trust policy.
        endpoint: the policy of the VPC endpoint through which the request came, if it came through one.
        trust: the resource policy is a trust policy, without which nobody gets in.
    """

    identity: Sequence[str] = ()
    boundary: str | None = None
    session: str | None = None
    resource: str | None = None
    endpoint: str | None = None
    trust: bool = False


@dataclass(frozen=True)
class Decision:
    """The answer.

    Attributes:
        allowed: whether the request may go on.
        reason: when it may not, the end of AWS's message: "because no ... allows ..." or "with an explicit
            deny ...".
    """

    allowed: bool
    reason: str = ""


ALLOWED = Decision(True)


class _Match(Enum):
    """What one document says of a request. DELEGATES: it allows the account as a whole, so IAM decides."""

    NOTHING = 0
    DELEGATES = 1
    ALLOWS = 2
    DENIES = 3


def decide(caller: Caller, action: Action, policies: Policies, context: Mapping[str, str]) -> Decision:
    """Decide one request of a principal of the account that owns the resource.

    Args:
        caller: who asks.
        action: what for, and on which resource.
        policies: the documents that have a say in it.
        context: condition keys and values of the request; keys are compared without regard to case.

    Raises:
        UnsupportedPolicyError: a document uses an element, operator or condition key that is not known here.
    """
    facts = {key.lower(): value for key, value in context.items()}
    facts["aws:principalarn"] = caller.principal_arn

    def ask(kind: PolicyKind, documents: Iterable[str]) -> _Match:
        return _strongest(document_match(document, kind, caller, action, facts) for document in documents)

    resource_kind = PolicyKind.TRUST if policies.trust else PolicyKind.RESOURCE
    answers: dict[PolicyKind, _Match] = {PolicyKind.IDENTITY: ask(PolicyKind.IDENTITY, policies.identity)}
    for kind, document in (
        (PolicyKind.BOUNDARY, policies.boundary),
        (PolicyKind.SESSION, policies.session),
        (resource_kind, policies.resource),
        (PolicyKind.ENDPOINT, policies.endpoint),
    ):
        if document is not None:
            answers[kind] = ask(kind, [document])

    for kind, match in answers.items():
        if match is _Match.DENIES:
            return Decision(False, _EXPLICIT_DENY[kind])
    for kind in (PolicyKind.ENDPOINT, PolicyKind.TRUST):
        if answers.get(kind, _Match.ALLOWS) is _Match.NOTHING:
            return _implicit(kind, action)
    # A resource policy that names the principal itself grants access without an identity policy.
    if answers.get(resource_kind) is not _Match.ALLOWS and answers[PolicyKind.IDENTITY] is not _Match.ALLOWS:
        return _implicit(PolicyKind.IDENTITY, action)
    for kind in (PolicyKind.BOUNDARY, PolicyKind.SESSION):
        if answers.get(kind, _Match.ALLOWS) is not _Match.ALLOWS:
            return _implicit(kind, action)
    return ALLOWED


def trusts_service(trust: str, service: str) -> bool:
    """Whether a role's trust policy lets an AWS service assume the role, as EC2 does for an instance profile.

    Raises:
        UnsupportedPolicyError: as `decide`.
    """
    caller = Caller(arn=service, principal_arn=service, account="")
    # Of the condition keys known here such a request carries none.
    return document_match(trust, PolicyKind.TRUST, caller, Action("sts:AssumeRole", "*"), {}) is _Match.ALLOWS


def denied_message(caller_arn: str, action: Action, decision: Decision, *, quoted: bool = False) -> str:
    """The message of an access-denied error.

    Sources: https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html and, because S3
    alone puts the resource into quotes,
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/troubleshoot-403-errors.html
    """
    resource = f'"{action.resource}"' if quoted else action.resource
    refused = f"User: {caller_arn} is not authorized to perform: {action.name} on resource: {resource}"
    return f"{refused} {decision.reason}".rstrip()


def named_principals(document: str) -> list[str]:
    """The AWS principals that a policy names; none of what is no policy at all."""
    try:
        statements = _listed(json.loads(document)["Statement"])
    except (KeyError, ValueError):
        return []
    found: list[str] = []
    for statement in statements:
        principal = statement.get("Principal", {})
        found.extend(_listed(principal.get("AWS", [])) if isinstance(principal, dict) else _listed(principal))
    return found


def _implicit(kind: PolicyKind, action: Action) -> Decision:
    return Decision(False, f"because no {kind.value} allows the {action.name} action")


def _strongest(matches: Iterable[_Match]) -> _Match:
    return max(matches, key=lambda match: match.value, default=_Match.NOTHING)


@dataclass(frozen=True)
class _Statement:
    allows: bool
    action: Callable[[str], bool]
    resource: Callable[[str], bool]
    principals: tuple[str, ...] | None
    conditions: tuple[tuple[str, str, tuple[str, ...]], ...] = field(default=())

    def match(self, caller: Caller, action: Action, facts: Mapping[str, str]) -> _Match:
        if not self.action(action.name) or not self.resource(action.resource):
            return _Match.NOTHING
        principal = _Match.ALLOWS if self.principals is None else _principal(self.principals, caller)
        if principal is _Match.NOTHING or not all(_holds(*condition, facts) for condition in self.conditions):
            return _Match.NOTHING
        return principal if self.allows else _Match.DENIES


def document_match(document: str, kind: PolicyKind, caller: Caller, action: Action, facts: Mapping[str, str]) -> _Match:
    """What one document says of a request; `facts` are its condition keys, in lower case, and their values."""
    return _strongest(statement.match(caller, action, facts) for statement in _parse(document, kind))


@lru_cache(maxsize=256)
def _parse(document: str, kind: PolicyKind) -> tuple[_Statement, ...]:
    content = json.loads(document)
    unknown = content.keys() - {"Version", "Id", "Statement"}
    if unknown:
        raise UnsupportedPolicyError(
            f"{kind.value}: unknown element {sorted(unknown)}; Version, Id and Statement are known"
        )
    if content.get("Version") != "2012-10-17" and "${" in document:
        raise UnsupportedPolicyError(f"{kind.value}: policy variables need Version 2012-10-17, and are not known here")
    return tuple(_statement(statement, kind) for statement in _listed(content["Statement"]))


def _statement(statement: dict[str, Any], kind: PolicyKind) -> _Statement:
    unknown = statement.keys() - _STATEMENT_ELEMENTS
    if unknown:
        raise UnsupportedPolicyError(f"{kind.value}: statement element {sorted(unknown)} is not known to the rehearsal")
    if "${" in json.dumps(statement):
        raise UnsupportedPolicyError(f"{kind.value}: policy variables are not known to the rehearsal")
    has_principal = kind in (PolicyKind.RESOURCE, PolicyKind.TRUST, PolicyKind.ENDPOINT)
    if has_principal is not ("Principal" in statement):
        raise UnsupportedPolicyError(f"{kind.value}: a statement {'lacks' if has_principal else 'has'} a Principal")
    return _Statement(
        allows=_effect(statement["Effect"], kind),
        action=_matcher(statement, "Action", ignore_case=True),
        # A trust policy speaks of its own role only and has no Resource.
        resource=_anything if kind is PolicyKind.TRUST else _matcher(statement, "Resource", ignore_case=False),
        principals=_principals(statement["Principal"], kind) if has_principal else None,
        conditions=tuple(_conditions(statement.get("Condition", {}), kind)),
    )


def _effect(effect: str, kind: PolicyKind) -> bool:
    if effect not in ("Allow", "Deny"):
        raise UnsupportedPolicyError(f"{kind.value}: Effect is {effect!r}; Allow and Deny are allowed")
    return effect == "Allow"


def _anything(_: str) -> bool:
    return True


def _matcher(statement: dict[str, Any], element: str, *, ignore_case: bool) -> Callable[[str], bool]:
    negated = f"Not{element}"
    if (element in statement) == (negated in statement):
        raise UnsupportedPolicyError(f"a statement needs exactly one of {element} and {negated}")
    patterns = [_pattern(text, ignore_case) for text in _listed(statement.get(element, statement.get(negated)))]
    wanted = element in statement
    return lambda value: any(pattern.fullmatch(value) for pattern in patterns) is wanted


@lru_cache(maxsize=1024)
def _pattern(text: str, ignore_case: bool) -> re.Pattern[str]:
    parts = {"*": ".*", "?": "."}
    expression = "".join(parts.get(character, re.escape(character)) for character in text)
    return re.compile(expression, re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def _principals(principal: Any, kind: PolicyKind) -> tuple[str, ...]:
    """ARNs, account numbers, names of services or `*`."""
    if principal == "*":
        return ("*",)
    unknown = principal.keys() - {"AWS", "Service"}
    if unknown:
        raise UnsupportedPolicyError(f"{kind.value}: principal type {sorted(unknown)}; AWS and Service are known")
    services = _listed(principal.get("Service", []))
    if "*" in services:
        raise UnsupportedPolicyError(f"{kind.value}: Service is '*'; the names of services are known")
    return (*_listed(principal.get("AWS", [])), *services)


def _principal(principals: Sequence[str], caller: Caller) -> _Match:
    """What naming these principals means for the caller.

    Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html
    """
    if "*" in principals or caller.arn in principals or caller.principal_arn in principals:
        return _Match.ALLOWS
    if caller.account in principals or f"arn:aws:iam::{caller.account}:root" in principals:
        return _Match.DELEGATES
    return _Match.NOTHING


def _conditions(block: dict[str, dict[str, Any]], kind: PolicyKind) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for operator, keys in block.items():
        if operator not in _OPERATORS:
            raise UnsupportedPolicyError(
                f"{kind.value}: condition operator {operator!r} is not known; known are {sorted(_OPERATORS)}"
            )
        for key, values in keys.items():
            if key.lower() not in CONDITION_KEYS:
                raise UnsupportedPolicyError(
                    f"{kind.value}: condition key {key!r} is not known; known are {sorted(CONDITION_KEYS)}"
                )
            yield operator, key.lower(), tuple(_text(value) for value in _listed(values))


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _holds(operator: str, key: str, values: Sequence[str], facts: Mapping[str, str]) -> bool:
    """A key that the request lacks satisfies no operator but the negated ones, which know what to do with it.

    Source:
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html
    """
    compare, negated = _OPERATORS[operator]
    actual = facts.get(key)
    return (actual is not None and any(compare(value, actual) for value in values)) is not negated


def _equal(expected: str, actual: str) -> bool:
    return expected == actual


def _like(expected: str, actual: str) -> bool:
    return _pattern(expected, False).fullmatch(actual) is not None


def _same_bool(expected: str, actual: str) -> bool:
    return expected.lower() == actual.lower()


def _arn_like(expected: str, actual: str) -> bool:
    """Each of the six parts of an ARN is compared by itself, so a wildcard does not reach over a colon."""
    wanted, given = expected.split(":", 5), actual.split(":", 5)
    return len(wanted) == len(given) == 6 and all(map(_like, wanted, given))


_OPERATORS: dict[str, tuple[Callable[[str, str], bool], bool]] = {
    "StringEquals": (_equal, False),
    "StringNotEquals": (_equal, True),
    "StringLike": (_like, False),
    "StringNotLike": (_like, True),
    "ArnEquals": (_arn_like, False),
    "ArnNotEquals": (_arn_like, True),
    "ArnLike": (_arn_like, False),
    "ArnNotLike": (_arn_like, True),
    "Bool": (_same_bool, False),
}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
