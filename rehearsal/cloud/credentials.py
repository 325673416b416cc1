"""The credentials that the cloud has issued, and whom each stands for."""

from __future__ import annotations

import base64
import secrets
import string
import threading
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from rehearsal.cloud import ACCOUNT
from rehearsal.cloud.iam import Caller
from rehearsal.cloud.journal import Journal

_KEY_ID_ALPHABET = string.ascii_uppercase + "234567"


@dataclass(frozen=True)
class Principal:
    """A user, or one session of a role.

    Attributes:
        arn: as GetCallerIdentity says it.
        user_id: as GetCallerIdentity says it: `AIDA...`, or `AROA...:session name`.
        role_arn: the role of a session, None for a user.
        role_id: the role's unique id, so that a session does not outlive a role of the same name.
        unrestricted: allowed everything, whatever IAM says: the operator.
    """

    arn: str
    user_id: str
    role_arn: str | None = None
    role_id: str | None = None
    unrestricted: bool = False

    @property
    def caller(self) -> Caller:
        """Who this is to a policy, which knows a session by its role as well."""
        return Caller(arn=self.arn, principal_arn=self.role_arn or self.arn, account=ACCOUNT)


@dataclass(frozen=True)
class Credential:
    """An access key.

    Attributes:
        token: the session token that must come with the key; None for a user's key.
        expires: None for a user's key.
        session_policy: the JSON text given to AssumeRole.
    """

    access_key_id: str
    secret_access_key: str
    token: str | None
    principal: Principal
    expires: datetime | None
    session_policy: str | None = None

    @property
    def expired(self) -> bool:
        """Whether the session has ended; a user's key never does."""
        return self.expires is not None and datetime.now(UTC) >= self.expires


class Keyring:
    """Issues access keys and registry tokens, and finds them again. Safe for threads."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self._credentials: dict[str, Credential] = {}
        self._registry_tokens: dict[str, tuple[Credential, datetime]] = {}

    def issue_user(self, name: str, *, unrestricted: bool) -> Credential:
        """Issue the long-lived key of an IAM user."""
        principal = Principal(
            arn=f"arn:aws:iam::{ACCOUNT}:user/{name}", user_id=_unique_id("AIDA"), unrestricted=unrestricted
        )
        return self._keep(Credential(_unique_id("AKIA"), _secret(30), token=None, principal=principal, expires=None))

    def issue_session(
        self,
        role_arn: str,
        role_id: str,
        session_name: str,
        life: timedelta,
        session_policy: str | None = None,
    ) -> Credential:
        """Issue the credentials of one session of a role, which end exactly after `life`."""
        role_name = role_arn.rsplit("/", 1)[-1]
        principal = Principal(
            arn=f"arn:aws:sts::{ACCOUNT}:assumed-role/{role_name}/{session_name}",
            user_id=f"{role_id}:{session_name}",
            role_arn=role_arn,
            role_id=role_id,
        )
        # STS gives whole seconds, and the answer must say the time at which the key really ends.
        expires = (datetime.now(UTC) + life).replace(microsecond=0)
        return self._keep(Credential(_unique_id("ASIA"), _secret(30), _secret(320), principal, expires, session_policy))

    def issue_registry_token(self, credential: Credential, life: timedelta) -> tuple[str, datetime]:
        """Issue a password for the registry's user `AWS`; it acts as the principal that asked for it."""
        password, expires = _secret(240), datetime.now(UTC) + life
        with self._lock:
            self._registry_tokens[password] = (credential, expires)
        # As a client sends it as well: nobody who looks for the password would find it in there.
        basic = base64.b64encode(f"AWS:{password}".encode()).decode()
        for kind, value in (("EcrPassword", password), ("EcrAuthorizationToken", basic)):
            self._journal.issued(kind, value, credential.principal.arn, expires)
        return password, expires

    def find(self, access_key_id: str) -> Credential | None:
        """The credential with this key id, an ended one too: what to answer to it is a rule's business."""
        return self._credentials.get(access_key_id)

    def has_user(self, arn: str) -> bool:
        """Whether a user's key has been issued under this ARN."""
        with self._lock:
            return any(item.principal.arn == arn and item.token is None for item in self._credentials.values())

    def find_registry_token(self, password: str) -> tuple[Credential, datetime] | None:
        """Who asked for this registry password, and when it ends or ended; None if it was never issued."""
        return self._registry_tokens.get(password)

    def expire(self, access_key_id: str) -> None:
        """End a session now, ahead of its time.

        Raises:
            KeyError: no such key was issued.
        """
        with self._lock:
            credential = self._credentials[access_key_id]
            self._credentials[access_key_id] = replace(credential, expires=datetime.now(UTC))

    def _keep(self, credential: Credential) -> Credential:
        with self._lock:
            self._credentials[credential.access_key_id] = credential
        arn, expires = credential.principal.arn, credential.expires
        self._journal.issued("AccessKeyId", credential.access_key_id, arn, expires)
        self._journal.issued("SecretAccessKey", credential.secret_access_key, arn, expires)
        if credential.token is not None:
            self._journal.issued("SessionToken", credential.token, arn, expires)
        return credential


def _unique_id(prefix: str) -> str:
    """Twenty characters, as https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html shows
    them.
    """
    return prefix + "".join(secrets.choice(_KEY_ID_ALPHABET) for _ in range(16))


def _secret(size: int) -> str:
    """`size` random bytes in base64: letters, digits, `+` and `/`, as in AWS's own keys; 30 bytes are 40
    characters.
    """
    return base64.b64encode(secrets.token_bytes(size)).decode()
