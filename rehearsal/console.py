"""What a person sees while a long step runs, and when it fails."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape

console = Console(highlight=False, soft_wrap=True)

_LAST_LINES = 30


class StepError(Exception):
    """A step of the rehearsal ended badly.

    Carries what a person needs next: the step's name, the last lines of its output and what to do.
    """

    def __init__(self, step: str, reason: str, *, last_lines: Sequence[str] = (), next_action: str = "") -> None:
        super().__init__(f"{step}: {reason}")
        self.step = step
        self.reason = reason
        self.last_lines = tuple(last_lines)
        self.next_action = next_action

    def show(self) -> None:
        """Print the failure the way every command of the rehearsal ends when it cannot go on."""
        console.print(f"✗ {self.step}: {self.reason}", markup=False, style="red")
        for line in self.last_lines:
            console.print(f"    {line}", markup=False)
        if self.next_action:
            console.print(f"  next: {self.next_action}", markup=False)


@contextmanager
def step(title: str) -> Iterator[Callable[[str], None]]:
    """Show that `title` is under way, then how many seconds it took; gives a function that shows a detail of it.

    On a terminal a spinner runs; elsewhere (CI, a file) one line marks the start, one each detail and one the end, so
    that a log shows which step hangs.
    """
    started = time.monotonic()
    if console.is_terminal:
        with console.status(escape(title)) as spinner:
            yield lambda detail: spinner.update(escape(f"{title}: {detail}"))
    else:
        console.print(f"… {title}", markup=False)
        yield lambda detail: console.print(f"  {time.monotonic() - started:6.1f} s  {detail}", markup=False)
    console.print(f"✓ {title} ({time.monotonic() - started:.1f} s)", markup=False)


def last_lines(path: Path, count: int = _LAST_LINES) -> list[str]:
    """The last `count` lines of a log, for an error message; empty when the log was never begun."""
    if not path.exists():
        return []
    return path.read_text(errors="replace").splitlines()[-count:]


def run_logged(
    title: str,
    command: Sequence[str | Path],
    log: Path,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    next_action: str = "",
) -> None:
    """Run `command` with its output in `log`.

    Raises:
        StepError: with the last lines of the log, when the command cannot start or exits with another code than 0.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        output.write(f"\n== {title}\n".encode())
        output.flush()
        try:
            code = subprocess.run(
                [os.fspath(part) for part in command],
                cwd=cwd,
                env=None if env is None else dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            ).returncode
        except OSError as error:
            raise StepError(title, f"cannot run {command[0]}: {error}", next_action=next_action) from error
    if code != 0:
        raise StepError(
            title,
            f"{os.fspath(command[0])} exited {code} (whole output: {log})",
            last_lines=last_lines(log),
            next_action=next_action,
        )
