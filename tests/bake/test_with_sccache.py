"""docker/with-sccache.sh with the real sccache, a real compiler and an S3 that decides by IAM policy.

That S3 is moto, in a process of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
from types_boto3_s3 import S3Client

from tests import control_group
from tests.conftest import cannot_run

BUCKET = "cache-bucket"
PREFIX = "a-prefix"
REGION = "us-east-1"


@dataclass
class Store:
    endpoint: str
    s3: S3Client
    writer: dict[str, str]
    reader: dict[str, str]

    def keys(self) -> list[str]:
        listed = self.s3.list_objects_v2(Bucket=BUCKET)
        return [entry["Key"] for entry in listed.get("Contents", [])]


def _user(endpoint: str, name: str, actions: list[str]) -> dict[str, str]:
    iam = boto3.client(
        "iam",
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id="root",
        aws_secret_access_key="root",
    )
    iam.create_user(UserName=name)
    document = {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": actions, "Resource": "*"}],
    }
    iam.put_user_policy(UserName=name, PolicyName="cache", PolicyDocument=json.dumps(document))
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return {
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
    }


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stderr is not None
        endpoint = next(found[0] for line in server.stderr if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
        admin = _user(endpoint, "admin", ["s3:*"])
        s3 = boto3.client(
            "s3",
            endpoint_url=endpoint,
            region_name=REGION,
            aws_access_key_id=admin["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=admin["AWS_SECRET_ACCESS_KEY"],
        )
        s3.create_bucket(Bucket=BUCKET)
        made = Store(
            endpoint,
            s3,
            writer=_user(endpoint, "writer", ["s3:ListBucket", "s3:GetObject", "s3:PutObject"]),
            reader=_user(endpoint, "reader", ["s3:ListBucket", "s3:GetObject"]),
        )
        # From here on moto decides every request by its user's policies.
        enforce = urllib.request.Request(f"{endpoint}/moto-api/reset-auth", data=b"0", method="POST")
        enforce.add_header("Content-Type", "text/plain")
        urllib.request.urlopen(enforce).close()
        yield made
    finally:
        server.terminate()
        server.communicate()


@dataclass
class Step:
    """What one run of the wrapper did."""

    status: int
    output: str
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def report(self) -> dict[str, Any]:
        (line,) = re.findall(r"^rocm-build-stats: (.*)$", self.output, re.MULTILINE)
        report: dict[str, Any] = json.loads(line)
        return report

    @property
    def stats(self) -> dict[str, Any]:
        stats: dict[str, Any] = self.report["sccache"]["stats"]
        return stats


class Wrapper:
    """Runs the wrapper as a RUN step does: the secret in /run/secrets, in a mount namespace of its own."""

    def __init__(self, script: Path, sccache: str, store: Store, folder: Path) -> None:
        self.script, self.sccache, self.store, self.folder = (
            script,
            sccache,
            store,
            folder,
        )

    @property
    def path(self) -> str:
        return f"{Path(self.sccache).parent}:/usr/sbin:/usr/bin:/sbin:/bin"

    def run(
        self,
        command: str,
        *,
        secret: str | None,
        options: Sequence[str] = (),
        step: str = "a-step",
        **variables: str,
    ) -> Step:
        dump = self.folder / "environment"
        environment = {
            "PATH": self.path,
            "HOME": str(self.folder),
            "SCCACHE_BUCKET": BUCKET,
            "SCCACHE_REGION": REGION,
            "SCCACHE_S3_KEY_PREFIX": PREFIX,
            "SCCACHE_WEBDAV_ENDPOINT": "",
            "SCCACHE_LOG": "warn",
            "REQUIRE_SCCACHE": "1",
            "FORCE_RECACHE": "false",
            "MAX_JOBS": "",
            # Only so that the bucket's name needs no DNS; a build has neither.
            "SCCACHE_ENDPOINT": self.store.endpoint.removeprefix("http://"),
            "SCCACHE_S3_USE_SSL": "false",
            **variables,
        }
        place_secret = "mount -t tmpfs tmpfs /run; mkdir /run/secrets; "
        place_secret += "cat >/run/secrets/aws; " if secret is not None else ""
        before = set(Path("/tmp").glob("with-sccache.*"))
        in_namespace = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
        in_namespace += [f'set -e; {place_secret}exec "$@" </dev/null', "sh"]
        done = subprocess.run(
            [
                *in_namespace,
                str(self.script),
                *options,
                step,
                "sh",
                "-c",
                f"env -0 >{shlex.quote(str(dump))}; {command}",
            ],
            check=False,
            cwd=self.folder,
            env=environment,
            input=secret or "",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        assert set(Path("/tmp").glob("with-sccache.*")) == before
        seen: dict[str, str] = {}
        if dump.exists():
            seen = dict(entry.split("=", 1) for entry in dump.read_text().split("\0") if entry)
            dump.unlink()
        return Step(done.returncode, done.stdout, seen)


def _lines(credentials: dict[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in credentials.items())


@pytest.fixture
def wrapper(checkout: Path, sccache: str, store: Store, tmp_path: Path) -> Wrapper:
    (tmp_path / "good.c").write_text(f"int in_{os.getpid()}_{abs(hash(tmp_path))}(void) {{ return 1; }}\n")
    (tmp_path / "bad.c").write_text("int broken(void) { return }\n")
    return Wrapper(checkout / "docker" / "with-sccache.sh", sccache, store, tmp_path)


USAGE = (
    "usage: with-sccache [--gib-per-job N] STEP COMMAND [ARGUMENT...], N being a whole number from 1, "
    "STEP of letters, digits, dots, underscores and dashes\n"
)
COMPILE = "$COMPILER_LAUNCHER gcc -c good.c -o good.o"


def test_first_compile_misses_and_the_next_hits(wrapper: Wrapper, store: Store) -> None:
    before = set(store.keys())
    began = time.monotonic()
    first = wrapper.run(COMPILE, secret=_lines(store.writer))
    elapsed = time.monotonic() - began
    assert first.status == 0, first.output
    assert first.report.keys() == {"step", "seconds", "sccache"}
    assert first.report["step"] == "a-step"
    assert 0 < first.report["seconds"] < elapsed
    assert (first.stats["cache_misses"]["counts"], first.stats["cache_writes"]) == (
        {"C/C++": 1},
        1,
    )
    assert "NotFound" not in first.output
    (written,) = set(store.keys()) - before - {f"{PREFIX}/.sccache_check"}
    assert re.fullmatch(rf"{PREFIX}(/[0-9a-f]){{3}}/[0-9a-f]+", written)

    (wrapper.folder / "good.o").unlink()
    second = wrapper.run(COMPILE, secret=_lines(store.writer))
    assert second.status == 0, second.output
    assert (
        second.stats["cache_hits"]["counts"],
        second.stats["cache_misses"]["counts"],
    ) == (
        {"C/C++": 1},
        {},
    )
    assert (wrapper.folder / "good.o").exists()


def test_forced_recache_compiles_again(wrapper: Wrapper, store: Store) -> None:
    wrapper.run(COMPILE, secret=_lines(store.writer))
    forced = wrapper.run(COMPILE, secret=_lines(store.writer), FORCE_RECACHE="true")
    assert (forced.stats["forced_recaches"], forced.stats["cache_hits"]["counts"]) == (
        1,
        {},
    )


def test_command_finds_the_launcher_and_no_credentials(wrapper: Wrapper, store: Store) -> None:
    step = wrapper.run(
        "true",
        secret=_lines(store.writer) + "AWS_SESSION_TOKEN=\n",
        AWS_SECURITY_TOKEN="",
    )
    assert step.status == 0, step.output
    launchers = {name for name, value in step.environment.items() if value == "sccache"}
    assert launchers == {
        "COMPILER_LAUNCHER",
        "CMAKE_C_COMPILER_LAUNCHER",
        "CMAKE_CXX_COMPILER_LAUNCHER",
        "CMAKE_HIP_COMPILER_LAUNCHER",
        "HIP_CLANG_LAUNCHER",
        "RUSTC_WRAPPER",
    }
    assert {n: v for n, v in step.environment.items() if n.startswith("AWS_")} == {"AWS_EC2_METADATA_DISABLED": "true"}
    assert not {"SCCACHE_RECACHE", "SCCACHE_LOG", "SCCACHE_WEBDAV_ENDPOINT", "CC", "CXX"} & step.environment.keys()


def _with_environment(part: str) -> list[str]:
    """The processes that have this in their environment."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        # Processes of others come and go, and are not readable for every user.
        with contextlib.suppress(OSError):
            found += [environ.parent.name] if part.encode() in environ.read_bytes() else []
    return found


# A server ends when its clients have gone, and this one stays for a while.
STAYS_CONNECTED = f"""{shlex.quote(sys.executable)} -c '
import os, socket, time
connection = socket.socket(socket.AF_UNIX)
connection.connect(os.environ["SCCACHE_SERVER_UDS"])
open("connected", "w").close()
time.sleep(1)
os._exit(0)
' >/dev/null 2>&1 & until [ -e connected ]; do sleep 0.1; done"""


@pytest.mark.parametrize("command", ["true", STAYS_CONNECTED], ids=["idle", "connected"])
def test_server_has_ended_and_said_its_last(wrapper: Wrapper, store: Store, command: str) -> None:
    step = wrapper.run(command, secret=_lines(store.writer), SCCACHE_LOG="info")
    assert step.status == 0, step.output
    assert "does not stop" not in step.output
    assert "ok, fully shutting down now" in step.output
    assert _with_environment(step.environment["SCCACHE_SERVER_UDS"]) == []


def test_server_that_hangs_before_it_listens(wrapper: Wrapper, store: Store) -> None:
    """It has the credentials, and would be there as long as the step that goes without it."""
    # The base images have no such program.
    no_kill = wrapper.folder / "without-kill" / "kill"
    no_kill.parent.mkdir()
    no_kill.write_text("#!/bin/sh\nexit 127\n")
    no_kill.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"127.0.0.1:{silent.getsockname()[1]}"
        servers = 'grep -lsz "^SCCACHE_ERROR_LOG=${SCCACHE_SERVER_UDS%socket}" /proc/[0-9]*/environ'
        step = wrapper.run(
            f'echo "servers: $({servers})"',
            secret=_lines(store.writer),
            SCCACHE_ENDPOINT=endpoint,
            REQUIRE_SCCACHE="0",
            PATH=f"{no_kill.parent}:{wrapper.path}",
        )
    _assert_uncached(step, "Timed out waiting for server startup")
    assert "with-sccache: the sccache server does not stop, and is killed" in step.output
    assert "\nservers: \n" in step.output


def test_failing_command_keeps_its_status_and_its_statistics(wrapper: Wrapper, store: Store) -> None:
    step = wrapper.run(
        "$COMPILER_LAUNCHER gcc -c bad.c -o bad.o || exit 43",
        secret=_lines(store.writer),
    )
    assert step.status == 43
    assert step.stats["compile_fails"] == 1


def test_output_without_a_last_line_break(wrapper: Wrapper, store: Store) -> None:
    step = wrapper.run("printf unfinished", secret=_lines(store.writer))
    assert step.report["step"] == "a-step"


def _assert_refused(step: Step, reason: str) -> None:
    assert step.status == 1
    assert "with-sccache: the compile cache cannot be used, and REQUIRE_SCCACHE=1 refuses to compile" in step.output
    assert reason in step.output
    assert "rocm-build-stats" not in step.output
    assert step.environment == {}, "the command has run"


def _assert_uncached(step: Step, reason: str) -> None:
    assert step.status == 0, step.output
    assert "with-sccache: compiling without the compile cache, as REQUIRE_SCCACHE=0 allows" in step.output
    assert reason in step.output
    assert step.report["sccache"] is None
    assert step.environment["COMPILER_LAUNCHER"] == ""
    assert not {"CMAKE_C_COMPILER_LAUNCHER", "RUSTC_WRAPPER"} & step.environment.keys()


def test_store_that_does_not_answer(wrapper: Wrapper, store: Store) -> None:
    # Port 9 (discard) is closed.
    secret, closed = _lines(store.writer), "127.0.0.1:9"
    reason = "Server startup failed: cache storage failed to read"
    _assert_refused(wrapper.run(COMPILE, secret=secret, SCCACHE_ENDPOINT=closed), reason)
    _assert_refused(
        wrapper.run(COMPILE, secret=secret, SCCACHE_ENDPOINT=closed, REQUIRE_SCCACHE=""),
        reason,
    )
    uncached = wrapper.run(COMPILE, secret=secret, SCCACHE_ENDPOINT=closed, REQUIRE_SCCACHE="0")
    _assert_uncached(uncached, reason)
    assert (wrapper.folder / "good.o").exists()


def test_store_that_takes_no_writes(wrapper: Wrapper, store: Store) -> None:
    reason = "does not report that the store takes writes\n"
    refused = wrapper.run(COMPILE, secret=_lines(store.reader))
    _assert_refused(refused, reason)
    assert "storage write check failed: PermissionDenied" in refused.output
    _assert_uncached(wrapper.run(COMPILE, secret=_lines(store.reader), REQUIRE_SCCACHE="0"), reason)


def test_no_credentials(wrapper: Wrapper) -> None:
    _assert_refused(wrapper.run(COMPILE, secret=None), "failed to load signing credential")


def test_no_store(wrapper: Wrapper, store: Store) -> None:
    step = wrapper.run(COMPILE, secret=_lines(store.writer), SCCACHE_BUCKET="")
    _assert_refused(
        step,
        "no store is named: set SCCACHE_BUCKET and SCCACHE_REGION, or SCCACHE_WEBDAV_ENDPOINT",
    )


@pytest.mark.parametrize(
    "line",
    ["AWS_SECRET_ACCESS_KEY= s3cret", "AWS_SECRET_ACCESS_KEY='s3cret'", "s3cret"],
)
def test_malformed_secret_is_named_by_its_line_and_never_shown(wrapper: Wrapper, line: str) -> None:
    step = wrapper.run(COMPILE, secret=f"AWS_ACCESS_KEY_ID=a\n\n{line}\n")
    _assert_refused(
        step,
        "line 3 of the secret aws is not of the form AWS_NAME=value, without quotes or blanks",
    )
    assert "s3cret" not in step.output


def test_most_talkative_log_shows_no_credential(wrapper: Wrapper, store: Store) -> None:
    step = wrapper.run(
        COMPILE,
        secret=_lines(store.writer) + "AWS_SESSION_TOKEN=a-t0ken\n",
        SCCACHE_LOG="trace",
    )
    # moto does not know the token, so whether the store takes it is not the question here; the requests are sent and
    # logged.
    assert "opendal" in step.output
    assert not [value for value in [store.writer["AWS_SECRET_ACCESS_KEY"], "a-t0ken"] if value in step.output]


def test_jobs(wrapper: Wrapper, store: Store) -> None:
    assert wrapper.run("true", secret=_lines(store.writer), MAX_JOBS="3").environment["MAX_JOBS"] == "3"
    derived = wrapper.run("true", secret=_lines(store.writer), MAX_JOBS="").environment["MAX_JOBS"]
    assert 1 <= int(derived) <= len(os.sched_getaffinity(0))


def test_step_that_needs_more_memory_a_job(wrapper: Wrapper, store: Store) -> None:
    secret, message = _lines(store.writer), "with-sccache: a-step runs 1 jobs instead of the 3 of MAX_JOBS: "
    # No machine has that much.
    lowered = wrapper.run("true", secret=secret, options=["--gib-per-job", "1000000"], MAX_JOBS="3")
    assert lowered.environment["MAX_JOBS"] == "1"
    assert re.search(rf"^{message}each needs 1000000 GiB, and \d+ GiB are available$", lowered.output, re.MULTILINE)

    derived = wrapper.run("true", secret=secret, options=["--gib-per-job", "1000000"])
    assert (derived.environment["MAX_JOBS"], "instead of" in derived.output) == ("1", False)

    kept = [
        wrapper.run("true", secret=secret, options=["--gib-per-job", "1"], MAX_JOBS="2"),
        wrapper.run("true", secret=secret, MAX_JOBS="4000"),
    ]
    assert [step.environment["MAX_JOBS"] for step in kept] == ["2", "4000"]
    assert not [step for step in kept if "instead of" in step.output]


@pytest.fixture
def small_group(tmp_path: Path) -> Iterator[Path]:
    """The file to write a process's id to, which then has little memory."""
    with contextlib.ExitStack() as made:
        try:
            members = made.enter_context(control_group.small_group(f"{tmp_path.parent.name}-{tmp_path.name}"))
        except OSError as error:
            cannot_run(
                f"the kernel's out-of-memory killer is provoked in a control group, which cannot be made: {error}"
            )
        yield members


@pytest.mark.parametrize(
    ("jobs", "fix"), [("5", "set MAX_JOBS to 2\n"), ("1", "take a machine with more memory\n")], ids=["jobs", "one-job"]
)
def test_out_of_memory(wrapper: Wrapper, store: Store, small_group: Path, jobs: str, fix: str) -> None:
    fill = f"echo $$ >{small_group}; {shlex.quote(sys.executable)} -c 'bytearray(1 << 30)'"
    step = wrapper.run(f"sh -c {shlex.quote(fill)}", secret=_lines(store.writer), MAX_JOBS=jobs)
    assert step.status != 0
    reason = "the kernel's out-of-memory killer struck 1 time(s) while it ran"
    assert step.output.endswith(f"with-sccache: a-step ran out of memory with MAX_JOBS={jobs}: {reason}; {fix}")
    assert step.report["step"] == "a-step"


def test_out_of_memory_that_the_command_survives(wrapper: Wrapper, store: Store, small_group: Path) -> None:
    fill = f"echo $$ >{small_group}; {shlex.quote(sys.executable)} -c 'bytearray(1 << 30)'"
    step = wrapper.run(f"sh -c {shlex.quote(fill)} || true", secret=_lines(store.writer))
    assert (step.status, "out of memory" in step.output) == (0, False)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"REQUIRE_SCCACHE": "yes"}, 'REQUIRE_SCCACHE is "yes": allowed are 1 '),
        ({"FORCE_RECACHE": "1"}, 'FORCE_RECACHE is "1": allowed are true '),
        ({"MAX_JOBS": "0"}, 'MAX_JOBS is "0": allowed are whole numbers from 1'),
        ({"step": 'a "step"'}, USAGE),
        ({"step": "--gib-per-job"}, USAGE),
        ({"step": "--jobs"}, USAGE),
    ],
)
def test_bad_value_is_refused(wrapper: Wrapper, variables: dict[str, str], message: str) -> None:
    step = wrapper.run("true", secret=None, **variables)
    assert (step.status, step.environment) == (2, {})
    assert step.output.startswith(f"with-sccache: {message}")


@pytest.mark.parametrize("gib", ["0", "4.5", ""])
def test_bad_gib_per_job_is_refused(wrapper: Wrapper, gib: str) -> None:
    step = wrapper.run("true", secret=None, options=["--gib-per-job", gib])
    assert (step.status, step.output, step.environment) == (2, f"with-sccache: {USAGE}", {})
