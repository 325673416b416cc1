"""Carries out buildspec/build.yml on the box, as CodeBuild would: ``python3 -m buildspec.box.runner``.

The semantics are CodeBuild's (https://docs.aws.amazon.com/codebuild/latest/userguide/build-spec-ref.html and
https://docs.aws.amazon.com/codebuild/latest/userguide/view-build-details-phases.html): all commands share one
shell; a failing command ends its phase, whose ``finally`` commands still run; a failed build is followed by
post_build, another failed phase by nothing, unless ``on-failure`` says otherwise. A build with a failed phase
has failed, also when ``on-failure: CONTINUE`` let it go on.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from buildspec.box import buildkit, status
from buildspec.box import config as box
from buildspec.box.config import BoxConfig
from buildspec.box.jobs import max_jobs_here
from buildspec.box.logs import BuildLog, LogShipper
from buildspec.box.spec import BuildSpec, Phase, load
from buildspec.box.status import PhaseStatus, StatusFile

BUILD_SPEC = Path(__file__).parent.parent / "build.yml"
LAST_LINES = 30
STEP_LINES = 1000
"""Lines of a command's end that are searched for the step that failed; BuildKit prints its summary last."""


@dataclass(frozen=True)
class Failure:
    """The first thing that failed."""

    phase: str
    command: str
    exit_code: int
    detail: str | None
    last_lines: tuple[str, ...]

    @property
    def step(self) -> str:
        """One line for the status."""
        step = f"{self.phase}: {self.command}: exit code {self.exit_code}"
        return step if self.detail is None else f"{step}: {self.detail}"


class Shell:
    """One bash that keeps its variables and directory from command to command."""

    def __init__(self, environment: Mapping[str, str], write: Callable[[str], object]) -> None:
        # Nobody can print the mark by accident, nor can a build step know it.
        self._mark = secrets.token_hex(16)
        self._write = write
        self._process = subprocess.Popen(
            ["bash", str(Path(__file__).with_name("shell.sh")), self._mark],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environment),
        )

    def run(self, command: str) -> int:
        """Run one command, write its output line by line, and return its exit code.

        A command that ends the shell itself (``exit``, ``set -e``) gives the shell's exit code; see
        :attr:`ended`.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(command.encode() + b"\0")
        self._process.stdin.flush()
        for raw in self._process.stdout:
            line = raw.decode("utf-8", errors="replace").removesuffix("\n")
            output, mark, exit_code = line.partition(self._mark)
            # A command whose last line has no newline leaves it in front of the mark.
            if output or not mark:
                self._write(output)
            if mark:
                return int(exit_code)
        return self._process.wait()

    @property
    def ended(self) -> bool:
        """True after a command has ended the shell."""
        return self._process.poll() is not None

    def close(self) -> None:
        """Lets the shell end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


class Runner:
    """Runs the phases of a build specification and reports each one's beginning and end."""

    def __init__(
        self,
        spec: BuildSpec,
        environment: Mapping[str, str],
        write: Callable[[str], str],
        report: Callable[[str, list[PhaseStatus]], None],
    ) -> None:
        """``environment`` wins over the specification's own variables, as a CodeBuild project's does.

        ``write`` takes each line of output and returns it as it may be shown; ``report`` gets the current
        phase's name and all phases so far.
        """
        self._spec = spec
        self._environment = {**spec.variables, **environment}
        self._write = write
        self._report = report
        self._lines: deque[str] = deque(maxlen=STEP_LINES)
        self._phases: list[PhaseStatus] = []
        self._shell: Shell | None = None
        self.failure: Failure | None = None

    def run(self) -> int:
        """Run the build; the exit code is that of the first command that failed, or 0."""
        try:
            for phase in self._spec.phases:
                failed = not self._run_phase(phase)
                goes_on = phase.on_failure == "CONTINUE" or (phase.on_failure is None and phase.name == "build")
                if failed and not goes_on:
                    break
        finally:
            if self._shell is not None:
                self._shell.close()
        return 0 if self.failure is None else self.failure.exit_code

    def _run_phase(self, phase: Phase) -> bool:
        begun = time.monotonic()
        entry = PhaseStatus(name=phase.name, startedAt=status.now(), seconds=None, exitCode=None)
        self._phases.append(entry)
        self._report(phase.name, self._phases)
        self._show(f"[{phase.name}] begins")
        exit_code = self._run_commands(phase, phase.commands)
        finally_exit_code = self._run_commands(phase, phase.finally_commands)
        entry["exitCode"] = exit_code if exit_code != 0 else finally_exit_code
        entry["seconds"] = round(time.monotonic() - begun, 3)
        self._show(f"[{phase.name}] ended after {entry['seconds']} s with exit code {entry['exitCode']}")
        self._report(phase.name, self._phases)
        return entry["exitCode"] == 0

    def _run_commands(self, phase: Phase, commands: tuple[str, ...]) -> int:
        for command in commands:
            title = f"[{phase.name}] "
            shown_command = self._show(title + command).removeprefix(title)
            self._lines.clear()
            exit_code = self._run_command(command)
            if exit_code != 0:
                if self.failure is None:
                    shown = tuple(self._lines)
                    detail = buildkit.failed_step(shown)
                    self.failure = Failure(phase.name, shown_command, exit_code, detail, shown[-LAST_LINES:])
                return exit_code
        return 0

    def _run_command(self, command: str) -> int:
        if self._shell is not None and self._shell.ended:
            self._shell.close()
            self._shell = None
        if self._shell is None:
            self._shell = Shell(self._environment, self._show)
        succeeding = "1" if self.failure is None else "0"
        self._shell.run(f"export CODEBUILD_BUILD_SUCCEEDING={succeeding}")
        return self._shell.run(command)

    def _show(self, line: str) -> str:
        shown = self._write(line)
        self._lines.append(shown)
        return shown


def environment(config: BoxConfig, instance: str) -> dict[str, str]:
    """Return the commands' environment; the bake variables win over a value derived here."""
    return {
        **os.environ,
        "MAX_JOBS": str(max_jobs_here()),
        **config.bake_variables,
        "RUN_ID": config.run_id(instance),
    }


def main() -> int:
    """Run the build of this box. Its end is reported by buildspec.box.finish, also when this is killed."""
    try:
        return _run()
    except Exception as error:
        # The status file may be what cannot be written.
        box.RUNNER_ERROR_FILE.write_text(f"{type(error).__name__}: {error}", encoding="utf-8")
        raise


def _run() -> int:
    config, instance = BoxConfig.load(box.CONFIG_FILE), box.instance_id(box.INSTANCE_ID_FILE)
    state = StatusFile(box.STATE_FILE)
    state.write(status.new(config, instance))
    s3 = boto3.client("s3", region_name=config.region)
    shipper = LogShipper(boto3.client("logs", region_name=config.region), config.log_group, instance)
    known_secrets = [box.TOKEN_FILE.read_text(encoding="utf-8").strip()]
    warnings: list[str] = []
    with BuildLog(box.LOG_FILE, known_secrets, shipper) as log:

        def report(phase: str, phases: list[PhaseStatus]) -> None:
            current = state.update({"phase": phase, "phases": phases})
            try:
                status.publish(s3, config, current)
            except (BotoCoreError, ClientError) as error:
                # The build goes on: its last status is stored by the unit's ExecStopPost as well.
                warnings.append(f"the status of phase {phase} was not stored: {error}")
                log.line(warnings[-1])

        runner = Runner(load(BUILD_SPEC), environment(config, instance), log.line, report)
        exit_code = runner.run()
    if shipper.problem is not None:
        warnings.append(shipper.problem)
        print(shipper.problem, flush=True)
    # The commands leave theirs in the stored status.
    changes: dict[str, object] = {"warnings": [*state.read()["warnings"], *warnings]}
    if runner.failure is not None:
        changes |= {"failingStep": runner.failure.step, "lastLines": list(runner.failure.last_lines)}
    state.update(changes)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
