"""What a build costs on booted boxes: with and without a warm cache, with and without the runner, up to its first step.

Two boxes bake `cache-probe`, as in `make rehearse`, and the second is kept for the measurements that need one; then two
bake the whole stack in miniature.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from bench.measure import BenchmarkError, Result
from buildspec.box.status import BuildStatus
from rehearsal.builds import BuildOutputs, wait_for_end, wait_for_power_off
from rehearsal.machine import Machine
from rehearsal.miniature import world
from rehearsal.region import Region
from rehearsal.setup import Setup
from rehearsal.stacks import PROJECT_DIRECTORY, Stack, Workspace

_BOX = {"layer": "box", "targets": ["cache-probe"]}
_BUILD_SECONDS = 900.0
_UNIT = "rocm-build.service"
_CONTEXT = "/opt/rocm-build-box"
_PREVIEWS = 5

# All steps every time, on both sides.
_NO_CACHE = 'target "_common" {\n  no-cache = true\n}\n'

# The command that the runner's phase starts, by turns as it is, under the runner's eyes, and with nobody who reads. It
# compiles everything: a bake of seconds would weigh the runner's start alone.
_BOTH_WAYS = """\
bare=$(python3 -c 'import pathlib, shlex; from buildspec.box import bake
print(shlex.join(bake.command(pathlib.Path.cwd(), ["cache-probe"])))')
export FORCE_RECACHE=true
for round in 1 2; do
  begun=$(cut -d" " -f1 /proc/uptime)
  python3 -m buildspec.box.bake || exit
  echo "bench: runner $begun $(cut -d" " -f1 /proc/uptime)"
  begun=$(cut -d" " -f1 /proc/uptime)
  eval "$bare" >/dev/null 2>&1 || exit
  echo "bench: bare $begun $(cut -d" " -f1 /proc/uptime)"
done
echo "bench: processor $(cut -d" " -f14,15 "/proc/$PPID/stat") $(getconf CLK_TCK)"
"""


def measure(setup: Setup, rootfs: Path, directory: Path) -> Iterator[Result]:
    """Run the builds, and give each ratio when it is known.

    Args:
        setup: the tools.
        rootfs: what the boxes boot from.
        directory: an empty folder.

    Raises:
        BenchmarkError: a build or a preview failed, or its log has not what is looked for.
        StepError: a stack or a box did not come up.
    """
    miniature = world.prepare(directory / "upstreams", PROJECT_DIRECTORY / "rocm-bake.hcl", setup.authority)
    with Region(directory / "region", rootfs, miniature) as region:
        workspace = Workspace(directory / "workspace", setup.engine, region.environment())
        workspace.stack("foundation", {"layer": "foundation"}).up()
        box = workspace.stack("dev", _BOX)
        cold, warm = _build_twice(region, box, _BOX)
        yield _warm_against_cold("compile step", region, cold, warm)
        yield _boot_against_build(region, warm)
        yield from _runner_against_bare(region, warm)
        yield _preview_against_empty(workspace, box)
        box.destroy()
        variables = dict(miniature.upstreams.bake_variables())
        settings = {**_BOX, "targets": ["runtime"], "bakeVariables": variables}
        cold, warm = _build_twice(region, workspace.stack("dev", settings), settings)
        yield _warm_against_cold("compile steps of the whole stack in miniature", region, cold, warm)


def _build_twice(region: Region, box: Stack, settings: Mapping[str, Any]) -> tuple[BuildOutputs, BuildOutputs]:
    """A build with an empty cache on a box that ends itself, and one on a second box, which stays."""
    box.configure(settings)
    box.up()
    cold = _finish(region, box)
    wait_for_power_off(region, cold)
    box.configure({**settings, "keepBox": True})
    box.up()
    return cold, _finish(region, box)


def _finish(region: Region, box: Stack) -> BuildOutputs:
    outputs = BuildOutputs.of(box.outputs())
    status = _status(region, outputs)
    if status["state"] != "succeeded":
        raise BenchmarkError(f"the build failed at {status['failingStep']}: {status['lastLines']}")
    return outputs


def _status(region: Region, outputs: BuildOutputs) -> BuildStatus:
    return wait_for_end(region, outputs, timeout=_BUILD_SECONDS)


def _compile_seconds(region: Region, outputs: BuildOutputs) -> float:
    cache = _status(region, outputs)["cache"]
    if cache is None:
        raise BenchmarkError("the build has no statistics of its cache")
    return cache["compileSeconds"]


def _warm_against_cold(what: str, region: Region, cold: BuildOutputs, warm: BuildOutputs) -> Result:
    measured, reference = _compile_seconds(region, warm), _compile_seconds(region, cold)
    return Result(f"{what}: warm cache / cold", measured, reference, limit=0.25)


def _boot_against_build(region: Region, outputs: BuildOutputs) -> Result:
    """From the launch to the first step of the bake, against the time from the launch to the end of the build."""
    ec2 = region.cloud.client("ec2")
    found = ec2.describe_instances(InstanceIds=[outputs.instance_id])
    launched = found["Reservations"][0]["Instances"][0]["LaunchTime"].timestamp()
    events = region.cloud.client("logs").get_log_events(
        logGroupName="/rocm-build-box/foundation", logStreamName=outputs.instance_id, startFromHead=True
    )["events"]
    baking = False
    for event in events:
        baking = baking or event["message"].startswith("docker buildx bake ")
        if baking and re.match(r"#\d+ \[.*\] RUN ", event["message"]):
            ended = events[-1]["timestamp"] / 1000
            return Result(
                "launch to the first RUN / to the end, warm",
                event["timestamp"] / 1000 - launched,
                ended - launched,
                0.9,
            )
    raise BenchmarkError("the build's log has no RUN")


def _runner_against_bare(region: Region, outputs: BuildOutputs) -> list[Result]:
    machine = region.wait_for_machine(outputs.instance_id)
    machine.write(f"{_CONTEXT}/ami/99-bench.hcl", _NO_CACHE)
    specification = yaml.safe_load((PROJECT_DIRECTORY / "buildspec" / "build.yml").read_text())
    phases = {"install": specification["phases"]["install"], "build": {"commands": [_BOTH_WAYS]}}
    machine.write(f"{_CONTEXT}/buildspec/build.yml", yaml.safe_dump({**specification, "phases": phases}))
    _run(machine, "systemctl", "start", _UNIT)
    while _run(machine, "systemctl", "show", "--property=ActiveState", "--value", _UNIT).strip() == "active":
        time.sleep(1.0)
    log = _run(machine, "cat", "/var/log/rocm-build-box/build.log")
    times = {
        who: statistics.median(float(end) - float(begun) for begun, end in found)
        for who in ("runner", "bare")
        if (found := re.findall(rf"^bench: {who} (\S+) (\S+)$", log, re.MULTILINE))
    }
    processor = re.search(r"^bench: processor (\d+) (\d+) (\d+)$", log, re.MULTILINE)
    if len(times) != 2 or processor is None:
        raise BenchmarkError(f"the bakes left no times: {log[-2000:]}")
    user, system, ticks = map(int, processor.groups())
    whole = sum(
        float(end) - float(begun) for begun, end in re.findall(r"^bench: runner (\S+) (\S+)$", log, re.MULTILINE)
    )
    return [
        Result("bake: through the runner / bare", times["runner"], times["bare"], limit=1.5),
        Result("runner's own processor time / wall time of its bakes", (user + system) / ticks, whole, limit=0.01),
    ]


def _run(machine: Machine, *command: str) -> str:
    done = machine.execute(command)
    if done.returncode != 0:
        raise BenchmarkError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def _preview_against_empty(workspace: Workspace, box: Stack) -> Result:
    """A preview that has nothing to do, against one of a program that is empty."""
    program = workspace.directory / "empty"
    program.mkdir()
    (program / "Pulumi.yaml").write_text("name: empty\nruntime: python\noptions:\n  refresh: always\n")
    (program / "__main__.py").write_text("import pulumi\n")
    workspace.pulumi("stack", "init", "empty", "--cwd", str(program))
    empty = ("preview", "--stack", "empty", "--cwd", str(program))

    def ours() -> None:
        done = box.attempt("preview", "--expect-no-changes")
        if done.returncode != 0:
            raise BenchmarkError(f"the preview failed: {done.stdout}{done.stderr}")

    def theirs() -> None:
        workspace.pulumi(*empty)

    rounds = [(_seconds(ours), _seconds(theirs)) for _ in range(_PREVIEWS + 1)][1:]
    measured, reference = (statistics.median(times) for times in zip(*rounds, strict=True))
    return Result("pulumi preview: box without a change / empty program", measured, reference, limit=2.0)


def _seconds(call: Callable[[], None]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun
