"""Faults before and in the middle of a build, on a box that stays.

Each ends with a status that names it, without secrets, with nothing left running, and the box can build again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from buildspec.box.status import BuildStatus
from tests.booted.conftest import BOX, KeptBox
from tests.booted.faults import (
    CREDENTIALS_UNIT,
    UNIT,
    CacheWatch,
    bake_of,
    file_on,
    forget_session,
    sessions_of,
    slow_compile,
    until,
)

BUILDER = "buildx_buildkit_rocm-build-box0"
PLUGIN = "/usr/libexec/docker/cli-plugins/docker-buildx"
DOCKER_INODES = 2_000_000
"""Of the file system of Docker's directory; rehearsal/boot-box.sh makes it."""

BAKE_FAILED = "build: python3 -m buildspec.box.bake: exit code 1: target cache-probe: "


def ended(kept: KeptBox, status: BuildStatus) -> tuple[str, str, int | None]:
    """State, phase and exit code of a build that has ended, once it is certain that it has left nothing."""
    assert kept.secrets_left() == []
    assert kept.run("systemctl", "show", "--property=ControlGroup", "--value", UNIT).strip() == ""
    if docker_is(kept, "active"):
        assert kept.run("docker", "ps", "--format", "{{.Names}}").split() in ([BUILDER], [])
        until("no step runs any more", lambda: steps_running(kept) == [])
    return status["state"], status["phase"], status["exitCode"]


def docker_is(kept: KeptBox, state: str) -> bool:
    return kept.machine.execute(["systemctl", "is-active", "docker.service"]).stdout.strip() == state


def steps_running(kept: KeptBox) -> list[str]:
    """The processes in the builder beside BuildKit's own."""
    done = kept.machine.execute(["docker", "top", BUILDER, "-o", "comm"])
    return [name for name in done.stdout.split()[1:] if name not in ("docker-init", "buildkitd")]


@pytest.fixture(autouse=True, scope="module")
def build_succeeds_afterwards(kept: KeptBox) -> Iterator[None]:
    yield
    status = kept.build()
    assert (status["state"], status["failingStep"]) == ("succeeded", None)


def step_of(status: BuildStatus) -> str:
    assert status["failingStep"] is not None
    return status["failingStep"]


def test_a_credential_service_that_is_killed_comes_back(kept: KeptBox) -> None:
    forget_session(kept)
    with slow_compile(kept, files=12):
        watch = CacheWatch.begin(kept)
        kept.start_build()
        watch.wait_for_writes(2)
        kept.run("systemctl", "kill", "--signal=KILL", CREDENTIALS_UNIT)
        status = kept.wait_for_build()
    assert ended(kept, status) == ("succeeded", "post_build", 0)
    assert status["cache"] is not None
    assert (status["cache"]["misses"], status["cache"]["errors"], status["cache"]["writeErrors"]) == (12, 0, 0)
    restarts = kept.run("systemctl", "show", "--property=NRestarts", "--value", CREDENTIALS_UNIT)
    assert int(restarts) >= 1


def test_a_session_that_ends_in_the_middle_fails_the_build(kept: KeptBox) -> None:
    forget_session(kept)
    with slow_compile(kept, files=12):
        watch = CacheWatch.begin(kept)
        kept.start_build()
        watch.wait_for_writes(3)
        kept.job.region.cloud.keyring.expire(sessions_of(kept)[-1])
        status = kept.wait_for_build()
    forget_session(kept)
    assert ended(kept, status) == ("failed", "post_build", 1)
    assert step_of(status) == "post_build: python3 -m buildspec.box.verify: exit code 1"
    refused = [write["status"] for write in watch.writes()].count(400)
    assert refused > 0
    lost = f"verify: the compile cache was asked for and not used: {refused} results could not be written to the cache"
    assert lost in status["lastLines"]
    assert "ExpiredToken" in kept.job.log_of(kept.outputs)
    assert list(status["images"]) == ["cache-probe"]


def test_docker_that_is_stopped_ends_the_build(kept: KeptBox) -> None:
    with slow_compile(kept, files=600):
        watch = CacheWatch.begin(kept)
        kept.start_build()
        watch.wait_for_writes(1)
        kept.run("systemctl", "stop", "docker.socket", "docker.service")
        status = kept.wait_for_build()
    assert ended(kept, status) == ("failed", "build", 128 + 15)
    assert step_of(status) == "build: stopped from outside, by systemctl stop or a power-off (killed by signal TERM)"


def test_docker_that_is_killed_ends_the_build(kept: KeptBox) -> None:
    with slow_compile(kept, files=600):
        watch = CacheWatch.begin(kept)
        kept.start_build()
        watch.wait_for_writes(1)
        kept.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "docker.service")
        status = kept.wait_for_build()
    until("docker is back", lambda: docker_is(kept, "active"))
    assert ended(kept, status) == ("failed", "post_build", 1)
    assert step_of(status).startswith(f"{BAKE_FAILED}BuildKit ended in the middle, see `journalctl --unit docker.service`: ")


@contextmanager
def other_plugin(kept: KeptBox, text: str) -> Iterator[None]:
    """Another program where buildx is looked for first; a plugin that is no program counts as none."""
    directory = "/root/plugins"
    with file_on(kept, f"{directory}/docker-buildx", text):
        kept.run("chmod", "755", f"{directory}/docker-buildx")
        kept.run("mount", "--bind", f"{directory}/docker-buildx", PLUGIN)
        try:
            yield
        finally:
            kept.run("umount", PLUGIN)


def test_no_buildx(kept: KeptBox) -> None:
    with other_plugin(kept, ""):
        status = kept.build()
    assert ended(kept, status) == ("failed", "install", 1)
    assert step_of(status) == "install: python3 -m buildspec.box.preflight: exit code 1"
    assert any(line.startswith("preflight: docker buildx version: exit code ") for line in status["lastLines"])


def test_a_buildx_that_is_too_old(kept: KeptBox) -> None:
    metadata = json.dumps({"SchemaVersion": "0.1.0", "Vendor": "Docker Inc.", "ShortDescription": "Builds"})
    version = "github.com/docker/buildx 0.13.1+ds1 0.13.1+ds1-3"
    script = f"#!/bin/sh\ncase $1 in docker-cli-plugin-metadata) echo '{metadata}' ;; *) echo '{version}' ;; esac\n"
    with other_plugin(kept, script):
        status = kept.build()
    assert ended(kept, status) == ("failed", "install", 1)
    assert step_of(status) == "install: python3 -m buildspec.box.preflight: exit code 1"
    assert [line for line in status["lastLines"] if line.startswith("preflight: ")] == [
        "preflight: buildx 0.13.1+ds1 is too old, 0.24 or newer is needed; was docker-buildx installed from forky? "
        "See apt-cache policy docker-buildx"
    ]


FILL = {
    "space": "head --bytes=64G /dev/zero >/hoard",
    # A shell ends when it cannot open a file for a built-in command.
    "inodes": "mkdir /hoard; cd /hoard; n=0; while true; do : >$n; n=$((n+1)); done",
}


@pytest.mark.parametrize("kind", ["space", "inodes"])
def test_a_full_disk_under_docker_is_named(kept: KeptBox, kind: str) -> None:
    """Docker's directory is a file system of its own here, so it can be given an end."""
    used_kib, used_inodes = (
        int(kept.run("df", f"--output={column}", "/var/lib/docker").split()[1]) for column in ("used", "iused")
    )
    limit = f"size={used_kib + 131072}k" if kind == "space" else f"nr_inodes={used_inodes + 8192}"
    kept.run("mount", "-o", f"remount,{limit}", "/var/lib/docker")
    try:
        with bake_of(kept, f"RUN {FILL[kind]}"):
            status = kept.build()
    finally:
        kept.run("mount", "-o", f"remount,size=50%,nr_inodes={DOCKER_INODES}", "/var/lib/docker")
    assert status["state"] == "failed"
    assert re.fullmatch(r"build: python3 -m buildspec.box.bake: exit code \d+: target cache-probe: .*", step_of(status))
    assert "no space left on device" in kept.job.log_of(kept.outputs).lower()
    assert ended(kept, status) == ("failed", "post_build", status["exitCode"])


@pytest.mark.parametrize("place", ["/var/log/rocm-build-box", "/var/lib/rocm-build-box"])
@pytest.mark.parametrize("limit", ["size=64k", "nr_inodes=3"])
def test_a_full_disk_under_the_builds_own_files_is_named(kept: KeptBox, place: str, limit: str) -> None:
    kept.run("mount", "-t", "tmpfs", "-o", limit, "tmpfs", place)
    try:
        # Until there is no space, or no inode, left.
        kept.machine.execute(["sh", "-c", f"head --bytes=1M /dev/zero >{place}/1; touch {place}/2 {place}/3"])
        status = kept.build()
    finally:
        kept.run("umount", place)
    state, phase, exit_code = ended(kept, status)
    assert (state, exit_code) == ("failed", 1)
    # The first phase begins in the status before it does in the log.
    assert phase in ("start", "install")
    assert step_of(status).startswith(f"{phase}: the runner failed: OSError: [Errno 28] No space left on device")


def test_the_time_limit_in_the_middle_of_a_step(kept: KeptBox) -> None:
    with slow_compile(kept, files=600):
        watch = CacheWatch.begin(kept)
        kept.start_build()
        watch.wait_for_writes(1)
        with file_on(kept, f"/run/systemd/system/{UNIT}.d/over.conf", "[Service]\nRuntimeMaxSec=1\n"):
            # The time counts from the start of the unit, which was longer ago.
            kept.run("systemctl", "daemon-reload")
            status = kept.wait_for_build()
        kept.run("systemctl", "daemon-reload")
    assert ended(kept, status) == ("failed", "build", 128 + 15)
    assert step_of(status) == "build: stopped at its time limit, RuntimeMaxSec= (killed by signal TERM)"


def test_an_up_while_a_build_runs(kept: KeptBox) -> None:
    box = kept.job.box
    with slow_compile(kept, files=600):
        watch = CacheWatch.begin(kept)
        kept.start_build()
        watch.wait_for_writes(1)
        same = box.attempt("up", "--yes", "--skip-preview", "--expect-no-changes")
        box.configure({**BOX, "keepBox": True, "bakeVariables": {"SCCACHE_LOG": "info"}})
        changed = box.attempt("up", "--yes", "--skip-preview")
        box.configure({**BOX, "keepBox": True})
        written = len(watch.writes())
        watch.wait_for_writes(written + 1)
        kept.run("systemctl", "stop", UNIT)
        status = kept.wait_for_build()
    assert same.returncode == 0, same.stdout + same.stderr
    assert changed.returncode != 0
    assert f"box {kept.outputs.instance_id} of stack dev is running" in changed.stdout + changed.stderr
    assert ended(kept, status) == ("failed", "build", 128 + 15)
