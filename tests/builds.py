"""Builds on the kept box whose one step lasts as long as a test wants, so that something can go wrong in its middle."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from buildspec.box import config as box
from rehearsal.builds import read_status
from rehearsal.cloud.credentials import Credential
from rehearsal.stacks import PROJECT_DIRECTORY
from tests.boxes import BUILDER, KeptBox, file_on, until

CREDENTIALS_UNIT = "rocm-build-credentials.service"
CONTEXT = "/opt/rocm-build-box"
OVERRIDE = f"{CONTEXT}/ami/99-fault.hcl"
DOCKERFILE = f"{CONTEXT}/docker/Dockerfile.fault"
BUILDX = "/usr/libexec/docker/cli-plugins/docker-buildx"
DOCKER_DIRECTORY = "/var/lib/docker"
DOCKER_INODES = 2_000_000
"""Of the file system of Docker's directory; rehearsal/boot-box.sh makes it."""
FILES = 8
"""Of a slow compile, unless a test says otherwise."""
ENDLESS = 600

# A file a time, so that every object in the store has a time of its own.
COMPILE_SLOWLY = """\
for number in $(seq 1 "$FILES"); do
    echo "int of_${NONCE}_$number;" >/tmp/one.c
    $COMPILER_LAUNCHER gcc -c /tmp/one.c -o /tmp/one.o
    sleep "$PAUSE"
done
"""


@contextmanager
def bake_of(kept: KeptBox, step: str, arguments: Mapping[str, str] | None = None, more: str = "") -> Iterator[None]:
    """Let the box's target be `step`, Dockerfile lines, above the toolchain of the real target.

    A new word is in the step's build argument NONCE, so that neither layer nor compile cache knows it, and in the
    image: one that the registry had already would not be pushed.
    """
    toolchain = (PROJECT_DIRECTORY / "docker/Dockerfile.cache-probe").read_text().partition("\nFROM toolchain")[0]
    values = {"NONCE": secrets.token_hex(8), **(arguments or {})}
    names = "".join(f"ARG {name}\n" for name in values)
    text = f"{toolchain}\nFROM toolchain AS build\n{names}{step}\n"
    text += 'RUN echo "$NONCE" >/nonce\nFROM scratch\nCOPY --from=build /nonce /\n'
    assigned = "".join(f'    {name} = "{value}"\n' for name, value in values.items())
    override = f'target "cache-probe" {{\n  dockerfile = "Dockerfile.fault"\n  args = {{\n{assigned}  }}\n{more}}}\n'
    with file_on(kept, DOCKERFILE, text), file_on(kept, OVERRIDE, override):
        yield


def compile_step(command: str) -> str:
    """Dockerfile lines that run a command as the real targets run theirs that compile."""
    names = ("SCCACHE_BUCKET", "SCCACHE_REGION", "SCCACHE_S3_KEY_PREFIX", "SCCACHE_LOG", "REQUIRE_SCCACHE", "MAX_JOBS")
    return (
        "".join(f"ARG {name}\n" for name in names) + "RUN --mount=type=secret,id=aws "
        "--mount=type=bind,from=sccache,source=/sccache,target=/usr/local/bin/sccache "
        "--mount=type=bind,from=scripts,source=with-sccache.sh,target=/usr/local/bin/with-sccache "
        f"with-sccache fault {command}"
    )


@contextmanager
def slow_compile(kept: KeptBox, files: int = FILES, pause: float = 0.3) -> Iterator[None]:
    """A bake with one compiling step of as many small files, with `pause` seconds after each."""
    step = f"COPY <<'end' /compile\n{COMPILE_SLOWLY}end\n" + compile_step("bash /compile")
    with bake_of(kept, step, {"FILES": str(files), "PAUSE": str(pause)}):
        yield


@dataclass
class CacheWatch:
    """What compile steps ask of the store, from a moment on."""

    kept: KeptBox
    seen: int
    """How many requests the region had answered by then."""

    @classmethod
    def begin(cls, kept: KeptBox) -> CacheWatch:
        return cls(kept, len(kept.job.requests()))

    def requests(self) -> list[dict[str, Any]]:
        return self.kept.job.requests()[self.seen :]

    def writes(self) -> list[dict[str, Any]]:
        """The results that sccache stored or tried to; its check of the store and the box's own probe are none."""
        return [
            request
            for request in self.requests()
            if request["action"] == "s3:PutObject"
            and "-cache/" in str(request["principal"])
            and "/." not in request["path"]
        ]

    def wait_for_writes(self, count: int) -> None:
        until(f"{count} writes to the compile cache", lambda: len(self.writes()) >= count)


@contextmanager
def compiling(kept: KeptBox, files: int = ENDLESS, *, writes: int = 1, pause: float = 0.3) -> Iterator[CacheWatch]:
    """A build in the middle of a slow compile, whose first results are in the compile cache."""
    with slow_compile(kept, files, pause):
        watch = CacheWatch.begin(kept)
        kept.start_build()
        watch.wait_for_writes(writes)
        assert steps_running(kept) != []
        yield watch


def steps_running(kept: KeptBox) -> list[str]:
    """The processes in the builder beside BuildKit's own."""
    lines = kept.run("docker", "top", BUILDER, "-o", "pid,comm").splitlines()[1:]
    return [name for _, name in map(str.split, lines) if name not in ("docker-init", "buildkitd")]


def forget_session(kept: KeptBox) -> None:
    """Let the credential service forget the session that it has."""
    kept.run("systemctl", "stop", CREDENTIALS_UNIT)


@contextmanager
def short_sessions(kept: KeptBox, life: timedelta) -> Iterator[None]:
    """Let STS end the cache role's sessions after `life`, whatever was asked for, and say so in its answers."""
    keyring = kept.job.region.cloud.keyring
    issue = keyring.issue_session

    def issue_short(
        role_arn: str, role_id: str, session_name: str, asked: timedelta, session_policy: str | None = None
    ) -> Credential:
        shorter = life if role_arn.endswith("-cache") else asked
        return issue(role_arn, role_id, session_name, shorter, session_policy)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyring, "issue_session", issue_short)
        yield
    forget_session(kept)


def sessions_of(kept: KeptBox) -> list[str]:
    """The ids of the cache role's keys, in the order in which STS has issued them."""
    return [
        entry["value"]
        for entry in kept.job.issued()
        if entry["kind"] == "AccessKeyId" and "-cache/" in entry["principal"]
    ]


def is_in(kept: KeptBox, phase: str) -> bool:
    """Whether a build is running, and is in that phase."""
    status = read_status(kept.job.region, kept.outputs)
    return status is not None and (status["state"], status["phase"]) == ("running", phase)


def cached(kept: KeptBox) -> str:
    """The pattern of the compile cache's paths in S3."""
    outputs = kept.job.foundation.outputs()
    return f"/{outputs['bucketName']}/{outputs['cachePrefix']}/*"


@contextmanager
def bake_variable(kept: KeptBox, name: str, value: str) -> Iterator[None]:
    """Another value of a bake variable in the box's configuration."""
    path = str(box.CONFIG_FILE)
    whole = kept.run("cat", path)
    config = json.loads(whole)
    config["bakeVariables"][name] = value
    kept.machine.write(path, json.dumps(config))
    try:
        yield
    finally:
        kept.machine.write(path, whole)


@contextmanager
def drop_in(kept: KeptBox, text: str, *units: str) -> Iterator[None]:
    """Lines of [Service] that the units have as well."""
    with ExitStack() as files:
        for unit in units:
            # The last by its name wins.
            path = f"/run/systemd/system/{unit}.d/zz-fault.conf"
            files.enter_context(file_on(kept, path, f"[Service]\n{text}\n"))
        kept.run("systemctl", "daemon-reload")
        yield
    kept.run("systemctl", "daemon-reload")


def docker_is(kept: KeptBox, state: str) -> bool:
    return kept.machine.execute(["systemctl", "is-active", "docker.service"]).stdout.strip() == state


@contextmanager
def other_buildx(kept: KeptBox, text: str) -> Iterator[None]:
    """Another program in the place of buildx."""
    program = "/root/plugins/docker-buildx"
    with file_on(kept, program, text):
        kept.run("chmod", "755", program)
        kept.run("mount", "--bind", program, BUILDX)
        try:
            yield
        finally:
            kept.run("umount", BUILDX)


def docker_uses(kept: KeptBox, column: str) -> int:
    """KiB (`used`) or inodes (`iused`) of Docker's file system."""
    return int(kept.run("df", f"--output={column}", DOCKER_DIRECTORY).split()[1])


@contextmanager
def docker_file_system(kept: KeptBox, limit: str) -> Iterator[None]:
    """Docker's directory is a file system of its own on these boxes, so it can be given an end."""
    kept.run("mount", "-o", f"remount,{limit}", DOCKER_DIRECTORY)
    try:
        yield
    finally:
        kept.run("mount", "-o", f"remount,size=50%,nr_inodes={DOCKER_INODES}", DOCKER_DIRECTORY)


@contextmanager
def full_file_system(kept: KeptBox, place: str, limit: str) -> Iterator[None]:
    """A file system of its own in that place, with no space or no inode left."""
    kept.run("mount", "-t", "tmpfs", "-o", limit, "tmpfs", place)
    try:
        kept.machine.execute(["sh", "-c", f"head --bytes=1M /dev/zero >{place}/1; touch {place}/2 {place}/3"])
        yield
    finally:
        kept.run("umount", place)
