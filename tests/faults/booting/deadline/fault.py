"""The deadline comes while the box builds. It counts from the boot, here in seconds instead of hours."""

from __future__ import annotations

from tests.faults.boots import Document


def change(user_data: Document) -> None:
    (deadline,) = (command for command in user_data["bootcmd"] if "--unit=rocm-build-deadline" in command)
    (after,) = (number for number, word in enumerate(deadline) if word.startswith("--on-active="))
    deadline[after] = "--on-active=75s"
