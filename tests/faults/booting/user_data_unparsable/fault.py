"""The user data is no YAML: cloud-init takes nothing of it, not even the deadline, and the box stays with nothing."""

from __future__ import annotations


def spoil(user_data: str) -> str:
    return user_data.replace("runcmd:", "runcmd: ]", 1)
