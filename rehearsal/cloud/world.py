"""What the rules and the answers share."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from rehearsal.cloud import ACCOUNT
from rehearsal.cloud.backends import Backends, RolePolicies
from rehearsal.cloud.consistency import History
from rehearsal.cloud.credentials import Credential, Keyring
from rehearsal.cloud.faults import Faults
from rehearsal.cloud.iam import Action, Decision, Policies, decide
from rehearsal.cloud.settings import Settings

ALLOW_EVERYTHING = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
)
_NAMED_HERE = re.compile(rf"arn:aws:iam::{ACCOUNT}:(?P<kind>role|user)/.+")
_NAMED = re.compile(
    r"\*|\d{12}|arn:aws:(?:iam|sts)::\d{12}:(?:root|(?:role|user|assumed-role)/[^*]+)|A(?:RO|ID)A[A-Z2-7]{16}"
)


@dataclass(frozen=True)
class World:
    """The state of one cloud."""

    backends: Backends
    keyring: Keyring
    settings: Settings = field(default_factory=Settings)
    faults: Faults = field(default_factory=Faults)
    _roles: History[RolePolicies] = field(default_factory=History)
    _profiles: History[tuple[str, ...]] = field(default_factory=History)

    def note_iam(self) -> None:
        """Take down how roles and instance profiles are now, after each change of one."""
        self._roles.note({role.id: self.backends.role_policies(role) for role in self.backends.roles()})
        self._profiles.note({item.id: _role_ids(item) for item in self.backends.instance_profiles()})

    def role_policies(self, role: Any) -> RolePolicies | None:
        """The policies by which a role is judged, or None when it is too new to be known."""
        delay = self.settings.policy_delay
        return self._roles.before(role.id, delay) if delay else self.backends.role_policies(role)

    def profile_roles(self, profile: Any) -> tuple[str, ...] | None:
        """The ids of the roles that EC2 knows of in an instance profile, or None when it knows no such profile."""
        delay = self.settings.profile_delay
        return self._profiles.before(profile.id, delay) if delay else _role_ids(profile)

    def principal_exists(self, principal: str) -> bool:
        """Whether a policy may name this principal; of other accounts every one may be."""
        here = _NAMED_HERE.fullmatch(principal)
        if here is None:
            return _NAMED.fullmatch(principal) is not None
        if here["kind"] == "role":
            return self.backends.role(principal) is not None
        return self.keyring.has_user(principal) or self.backends.user(principal) is not None

    def decide(
        self,
        credential: Credential,
        action: Action,
        *,
        resource_policy: str | None = None,
        trust: bool = False,
        endpoint: Any | None = None,
        secure: bool,
    ) -> Decision:
        """Ask IAM about one action of whoever holds this credential.

        Args:
            credential: whose holder asks.
            action: what for, and on which resource.
            resource_policy: the JSON of a bucket policy, or with `trust` of a role's trust policy.
            trust: whether the action is to assume a role, on whose trust policy it depends.
            endpoint: the VPC endpoint through which the request comes.
            secure: whether it came over TLS.

        Raises:
            UnsupportedPolicyError: a policy uses something that the evaluator does not know.
        """
        principal = credential.principal
        context = {"aws:SecureTransport": str(secure).lower()}
        if endpoint is not None:
            context["aws:SourceVpce"] = endpoint.id
        role = self._role(credential)
        own = self.role_policies(role) if role is not None else None
        identity = own.identity if own is not None else ()
        policies = Policies(
            identity=[ALLOW_EVERYTHING] if principal.unrestricted else identity,
            boundary=own.boundary if own is not None else None,
            session=credential.session_policy,
            resource=resource_policy,
            endpoint=endpoint.policy_document if endpoint is not None else None,
            trust=trust,
        )
        return decide(principal.caller, action, policies, context)

    def _role(self, credential: Credential) -> Any | None:
        """The role of a session, unless it has been deleted; a later one of the same name is another."""
        if credential.principal.role_arn is None:
            return None
        role = self.backends.role(credential.principal.role_arn)
        return role if role is not None and role.id == credential.principal.role_id else None


def _role_ids(profile: Any) -> tuple[str, ...]:
    return tuple(role.id for role in profile.roles)
