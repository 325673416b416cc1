"""What a test may change about a cloud while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Settings:
    """The settings of one cloud; a change holds from the next request on.

    Attributes:
        profile_delay: seconds until EC2 knows a new instance profile, or another role in one.
        policy_delay: seconds until a new role, and a change of a role's policies, takes effect.
        vcpu_quota: vCPUs that may run in a class of instance types; None for any number.
        full: pairs of zone and instance type of which EC2 has no machine left.

    AWS promises no time for the delays ("eventually consistent"); some seconds are usual:
    https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html#troubleshoot_general_eventual-consistency
    """

    profile_delay: float = 0.0
    policy_delay: float = 0.0
    vcpu_quota: int | None = None
    full: set[tuple[str, str]] = field(default_factory=set)
