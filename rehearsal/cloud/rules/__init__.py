"""The rules that the cloud adds to moto: each a function of its own, in the order in which they are applied.

A rule looks at a parsed request, or at the role whose credentials an instance asks for, and raises `ApiError` when AWS
would refuse it. The first paragraph of its docstring says what it holds a request to, and the addresses in the
docstring are where that is documented; `rehearsal.rules_page` makes `docs/rehearsal-rules.md` of both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rehearsal.cloud.requests import ApiRequest
from rehearsal.cloud.rules import access, ec2, iam, imds, s3, sts
from rehearsal.cloud.world import World

_ADDRESS = re.compile(r"https://[^\s,;)`]+")

_Asked = TypeVar("_Asked")


@dataclass(frozen=True)
class Rule(Generic[_Asked]):
    """A rule and what is known of it.

    Attributes:
        check: raises `ApiError` when AWS would refuse what it is asked.
        moto: what moto does with such a request when the rule is switched off.
        unconfirmed: what of the answer AWS documents nowhere and no report of a real answer shows; "" when nothing.
    """

    check: Callable[[World, _Asked], None]
    moto: str
    unconfirmed: str = ""

    @property
    def name(self) -> str:
        """By which it is switched off, and by which its test is found."""
        return self.check.__name__

    @property
    def title(self) -> str:
        """What it holds a request to."""
        return " ".join((self.check.__doc__ or "").split("\n\n", 1)[0].split())

    @property
    def sources(self) -> list[str]:
        """Where AWS says so, or where a real answer is reported."""
        return [address.rstrip(".") for address in _ADDRESS.findall(self.check.__doc__ or "")]


RULES: tuple[Rule[ApiRequest], ...] = (
    Rule(access.key_is_known, "takes any key id and any token"),
    Rule(access.clock_is_right, "does not look at the time", "EC2's text"),
    Rule(access.session_is_alive, "knows no end of a session"),
    Rule(access.action_is_allowed, "allows everything"),
    Rule(access.missing_key_is_hidden, "answers 404"),
    Rule(sts.session_request_is_valid, "gives a session of any length under any name"),
    Rule(sts.role_is_trusted, "gives a session of any role to anybody"),
    Rule(sts.chained_session_is_short, "gives the session"),
    Rule(sts.session_fits_role, "gives the session"),
    Rule(iam.role_name_fits, "takes any length"),
    Rule(iam.longest_session_is_in_range, "takes any number"),
    Rule(iam.trust_policy_fits, "takes any length"),
    Rule(iam.trusted_principals_exist, "does not look them up"),
    Rule(iam.inline_policies_fit, "takes any length"),
    Rule(ec2.user_data_fits, "takes any length"),
    Rule(ec2.instance_type_exists, "launches it"),
    Rule(ec2.image_exists, "launches it"),
    Rule(ec2.zone_offers_type, "launches it"),
    Rule(ec2.instance_profile_is_known, "knows each profile at once, also one without a role"),
    Rule(ec2.vcpu_quota_is_kept, "knows no quota"),
    Rule(ec2.zone_has_capacity, "has room for everything"),
    Rule(s3.bucket_name_is_valid, "looks at the length only"),
    Rule(
        s3.lifecycle_is_valid,
        "takes them",
        "the answers to more than 1,000 rules, to a part of a day, and to 0 days after the initiation of an upload",
    ),
    Rule(s3.bucket_policy_fits, "takes any length", "the code PolicyTooLarge"),
    Rule(s3.bucket_policy_is_valid, "takes any"),
)
# What the metadata service holds the role of an instance profile to.
ROLE_RULES: tuple[Rule[Any], ...] = (Rule(imds.ec2_is_trusted, "has no metadata service"),)
EVERY_RULE = (*RULES, *ROLE_RULES)


class Ruleset:
    """The rules of one cloud, of which a test can switch one off."""

    def __init__(self) -> None:
        self._off: set[str] = set()

    def apply(self, world: World, request: ApiRequest) -> None:
        """Refuse what AWS would refuse.

        Raises:
            ApiError: as AWS answers.
            UnsupportedPolicyError: a policy uses something that the evaluator does not know.
        """
        self._apply(RULES, world, request)

    def apply_to_role(self, world: World, role: Any) -> None:
        """Refuse the credentials of a role that EC2 would refuse to an instance.

        Raises:
            ApiError: as the metadata service answers.
            UnsupportedPolicyError: as `apply`.
        """
        self._apply(ROLE_RULES, world, role)

    @contextmanager
    def without(self, name: str) -> Iterator[None]:
        """Switch one rule off, to show that it was the one that refused.

        Raises:
            ValueError: there is no such rule.
        """
        if name not in {rule.name for rule in EVERY_RULE}:
            raise ValueError(f"rule {name!r}: not known; known are {[rule.name for rule in EVERY_RULE]}")
        self._off.add(name)
        try:
            yield
        finally:
            self._off.discard(name)

    def _apply(self, rules: tuple[Rule[_Asked], ...], world: World, asked: _Asked) -> None:
        for rule in rules:
            if rule.name not in self._off:
                rule.check(world, asked)
