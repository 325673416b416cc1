"""What the rules and the answers share."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from rehearsal.cloud.backends import Backends
from rehearsal.cloud.credentials import Credential, Keyring
from rehearsal.cloud.iam import Action, Decision, Policies, decide

ALLOW_EVERYTHING = json.dumps(
    {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
)


@dataclass(frozen=True)
class World:
    """The state of one cloud."""

    backends: Backends
    keyring: Keyring

    def decide(
        self,
        credential: Credential,
        action: Action,
        *,
        resource_policy: str | None = None,
        trust: bool = False,
        endpoint: Any | None = None,
        secure: bool = True,
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
        policies = Policies(
            identity=self._identity_policies(credential),
            boundary=self._boundary(credential),
            session=credential.session_policy,
            resource=resource_policy,
            endpoint=endpoint.policy_document if endpoint is not None else None,
            trust=trust,
        )
        return decide(principal.caller, action, policies, context)

    def _identity_policies(self, credential: Credential) -> list[str]:
        if credential.principal.unrestricted:
            return [ALLOW_EVERYTHING]
        role = self._role(credential)
        return self.backends.identity_policies(role) if role is not None else []

    def _boundary(self, credential: Credential) -> str | None:
        role = self._role(credential)
        return self.backends.permissions_boundary(role) if role is not None else None

    def _role(self, credential: Credential) -> Any | None:
        """The role of a session, unless it has been deleted; a later one of the same name is another."""
        if credential.principal.role_arn is None:
            return None
        role = self.backends.role(credential.principal.role_arn)
        return role if role is not None and role.id == credential.principal.role_id else None
