"""The deadline comes while the box builds. It counts from the boot, here in seconds instead of hours."""

from __future__ import annotations

from tests.faults.boots import Document, with_a_bake_that_does_not_end


def change(user_data: Document) -> None:
    (deadline,) = (command for command in user_data["bootcmd"] if "--unit=rocm-build-deadline" in command)
    (after,) = (number for number, word in enumerate(deadline) if word.startswith("--on-active="))
    # Of a deadline in hours it does not matter that systemd lets it elapse up to a minute late.
    deadline[after : after + 1] = ["--on-active=90s", "--timer-property=AccuracySec=1s"]
    with_a_bake_that_does_not_end(user_data)
