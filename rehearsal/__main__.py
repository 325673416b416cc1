"""`make rehearse`: the whole job on this machine, with no AWS account.

Both stacks go up, two boxes bake one after the other (the second with nothing but the compile cache), both stacks go
down, and nothing may be left. The exit code is the build's; 1 when the second box compiled anything again.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from buildspec.box.status import BuildStatus
from rehearsal import inventory
from rehearsal.builds import BuildOutputs, wait_for_end, wait_for_power_off
from rehearsal.console import StepError, console, step
from rehearsal.miniature import world as miniature_world
from rehearsal.miniature.world import Miniature
from rehearsal.region import Region
from rehearsal.setup import Setup, prepare
from rehearsal.stacks import PROJECT_DIRECTORY, Stack, Workspace
from rehearsal.tools.store import remove_tree

_BUILD_SECONDS = 1800.0
_FOUNDATION = {"layer": "foundation"}
# These need no image of ROCm and no upstream.
_WITHOUT_MINIATURE = {"cache-probe", "sccache"}


@dataclass(frozen=True)
class Build:
    """A build that ended, and how long an operator waited for it."""

    status: BuildStatus
    seconds: float
    """From the end of `pulumi up` to the final status: boot, packages and build."""

    def phase_seconds(self, name: str) -> float:
        """How long a phase of the build spec took; 0 when it was not reached."""
        return next((phase["seconds"] or 0.0 for phase in self.status["phases"] if phase["name"] == name), 0.0)


def rehearse(directory: Path, targets: Sequence[str], *, keep: bool) -> int:
    """Run the rehearsal and give its exit code.

    Args:
        directory: everything it writes goes here; what an earlier run left there is removed.
        targets: what the boxes bake, of rocm-bake.hcl.
        keep: leave the stacks up and wait, for a person to look around.

    Raises:
        StepError: at the first step that fails.
    """
    setup = prepare()
    with _alone(directory):
        miniature = _miniature(setup, directory, targets)
        exit_code = _rehearse(setup, directory, _box_settings(targets, miniature), miniature, keep=keep)
    _show_omissions(setup)
    return exit_code


def _miniature(setup: Setup, directory: Path, targets: Sequence[str]) -> Miniature | None:
    """What the targets need in place of ROCm and of the upstreams; None when they need nothing of that."""
    if setup.rootfs is None or _WITHOUT_MINIATURE.issuperset(targets):
        return None
    return miniature_world.prepare(directory / "upstreams", PROJECT_DIRECTORY / "rocm-bake.hcl", setup.authority)


def _box_settings(targets: Sequence[str], miniature: Miniature | None) -> dict[str, Any]:
    variables = {"bakeVariables": dict(miniature.upstreams.bake_variables())} if miniature else {}
    return {"layer": "box", "targets": list(targets), **variables}


def _rehearse(
    setup: Setup, directory: Path, box_settings: Mapping[str, Any], miniature: Miniature | None, *, keep: bool
) -> int:
    with Region(directory / "region", setup.rootfs, miniature) as region:
        workspace = Workspace(directory, setup.engine, region.environment())
        before = inventory.take(region.cloud)
        foundation = workspace.stack("foundation", _FOUNDATION)
        foundation.up()
        box = workspace.stack("dev", box_settings)
        if setup.rootfs is None:
            box.up()
            _show_stacks([foundation, box])
            builds: list[Build] = []
        else:
            builds = _build_twice(region, box, box_settings, keep=keep)
            _show_stacks([foundation, box])
            _show_builds(builds)
        exit_code = next((build.status["exitCode"] or 0 for build in builds if build.status["exitCode"]), 0)
        if exit_code == 0 and not _is_warm(builds):
            exit_code = 1
        if keep:
            _wait_for_a_person(region, workspace, box)
        box.destroy()
        # The documented way to destroy what is protected: say so first.
        foundation.configure({**_FOUNDATION, "protect": False})
        foundation.up()
        foundation.destroy()
        left = sorted(inventory.take(region.cloud) - before)
        if left:
            raise StepError("nothing is left", f"still there: {', '.join(f'{kind} {name}' for kind, name in left)}")
        console.print("✓ nothing is left in the account")
    return exit_code


@contextlib.contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Hold the folder, emptied, against a second rehearsal, which would pull the plug on this one's boxes.

    Raises:
        StepError: when another process holds it.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    with directory.with_name(f"{directory.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StepError(
                "start",
                f"another rehearsal is using {directory}",
                next_action="wait for it or end it with Ctrl-C; `--directory` names another folder",
            ) from error
        remove_tree(directory)
        yield


def _build_twice(region: Region, box: Stack, settings: Mapping[str, Any], *, keep: bool) -> list[Build]:
    """A cold build, then one on a fresh box, which stays up if `keep`; stops after one that failed."""
    builds: list[Build] = []
    for number in (1, 2):
        stays = keep and number == 2
        if stays:
            box.configure({**settings, "keepBox": True})
        box.up()
        outputs = BuildOutputs.of(box.outputs())
        started = time.monotonic()
        with step(f"build {number} on {outputs.instance_id}") as show:
            status = wait_for_end(
                region,
                outputs,
                timeout=_BUILD_SECONDS,
                on_progress=lambda status, show=show: show(f"{status['phase']} ({status['state']})"),  # type: ignore[misc]  # mypy cannot type a lambda's default
            )
        builds.append(Build(status, time.monotonic() - started))
        if status["state"] == "failed":
            StepError(
                f"build {number}, {status['failingStep']}",
                f"exit code {status['exitCode']}",
                last_lines=status["lastLines"],
                next_action=f"the whole log is s3://{outputs.bucket}/{outputs.log_key}; with `make rehearse KEEP=1` "
                "everything stays up for a look",
            ).show()
            break
        if not stays:
            wait_for_power_off(region, outputs)
    return builds


def _is_warm(builds: Sequence[Build]) -> bool:
    """Whether the second box took from the compile cache what the first had stored; says so when it did not."""
    for build in builds[1:]:
        cache = build.status["cache"]
        if cache and cache["misses"]:
            StepError(
                "build 2, compile cache",
                f"{cache['misses']} of {cache['requests']} compiles were not in the cache that build 1 had filled",
                next_action="compare the two builds' logs; a compiler, a flag or a path that differs makes another key",
            ).show()
            return False
    return True


def _show_stacks(stacks: Sequence[Stack]) -> None:
    table = Table(title="resources")
    table.add_column("stack")
    table.add_column("resources", justify="right")
    for stack in stacks:
        table.add_row(stack.name, str(len(stack.resources())))
    console.print(table)


def _show_builds(builds: Sequence[Build]) -> None:
    table = Table(title="compile cache and time")
    table.add_column("")
    for number, _ in enumerate(builds, start=1):
        table.add_column(f"box {number}", justify="right")
    if len(builds) == 2:
        table.add_column("second / first", justify="right")

    def row(name: str, values: Sequence[float | None], form: str, *, ratio: bool = False) -> None:
        cells = ["-" if value is None else format(value, form) for value in values]
        if len(builds) == 2:
            first, second = values
            cells.append(f"{second / first:.0%}" if ratio and first and second is not None else "")
        table.add_row(name, *cells)

    caches = [build.status["cache"] for build in builds]
    row("hits", [cache and cache["hits"] for cache in caches], "d")
    row("misses", [cache and cache["misses"] for cache in caches], "d")
    row("errors", [cache and cache["errors"] + cache["writeErrors"] for cache in caches], "d")
    row("compile step, s", [cache and cache["compileSeconds"] for cache in caches], ".1f", ratio=True)
    row("bake, s", [build.phase_seconds("build") for build in builds], ".1f", ratio=True)
    row("canary and probes, s", [build.phase_seconds("pre_build") for build in builds], ".1f")
    row("from `up` to the end, s", [build.seconds for build in builds], ".1f", ratio=True)
    console.print(table)


def _show_omissions(setup: Setup) -> None:
    if setup.cannot_boot is not None:
        console.print(f"left out: the booted box and its builds, because {setup.cannot_boot}", markup=False)


def _wait_for_a_person(region: Region, workspace: Workspace, box: Stack) -> None:
    """Say how to look around, and wait for Ctrl-C or SIGTERM."""
    environment = workspace.directory / "environment"
    environment.touch(mode=0o600)
    names = sorted(name for name in workspace.environment if name.startswith(("AWS_", "PULUMI_")) or name == "PATH")
    environment.write_text("".join(f"export {name}={shlex.quote(workspace.environment[name])}\n" for name in names))
    console.print("everything stays up. In another shell:", markup=False)
    console.print(f"  . {shlex.quote(str(environment))}     # keys and endpoint of this rehearsal", markup=False)
    console.print(f"  pulumi stack output --stack {box.name} --cwd {shlex.quote(str(PROJECT_DIRECTORY))}", markup=False)
    for machine in region.machines.values():
        if machine.running:
            console.print(
                f"  {shlex.join(machine.enter_command())} bash     # inside {machine.instance_id}", markup=False
            )
        console.print(f"  less {shlex.quote(str(machine.console_log))}", markup=False)
    console.print("Ctrl-C here takes everything down.", markup=False)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    while not ended.wait(1.0):
        region.check()


def main(arguments: Sequence[str]) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="make rehearse", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave everything up until Ctrl-C")
    parser.add_argument("--targets", type=str.split, default=["cache-probe"], help="what the boxes bake")
    parser.add_argument("--directory", type=Path, default=PROJECT_DIRECTORY / ".rehearsal")
    options = parser.parse_args(arguments)
    # As Ctrl-C does: the way out takes boxes and network down.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        return rehearse(options.directory.resolve(), options.targets, keep=options.keep)
    except StepError as failure:
        failure.show()
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
