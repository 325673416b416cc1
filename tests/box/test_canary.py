"""The canary: its judgement, its listener, its probe, and the fake metadata services that must not pass."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import buildspec.box
from buildspec.box import canary
from buildspec.box import config as box
from buildspec.box.canary import CLOSED, OPEN, Check, Finding
from tests.box.support import executable

PROBE = Path(buildspec.box.__file__).parent / "canary/probe.sh"
OWN = "10.64.0.9"


class Metadata(BaseHTTPRequestHandler):
    """Version 2 of the metadata service, or one that answers with ``status`` to everything."""

    protocol_version = "HTTP/1.1"
    status = 200

    def do_PUT(self) -> None:
        asked = self.path == "/latest/api/token" and "X-aws-ec2-metadata-token-ttl-seconds" in self.headers
        self._answer(self.status if asked else 400, "token")

    def do_GET(self) -> None:
        asked = self.headers.get("X-aws-ec2-metadata-token") == "token"
        self._answer(200 if asked and self.path == "/latest/meta-data/local-ipv4" else 401, OWN)

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def metadata_service(status: int) -> Iterator[tuple[str, int]]:
    handler = type("Handler", (Metadata,), {"status": status})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield "127.0.0.1", server.server_address[1]
        server.shutdown()


def test_metadata_service_that_answers_gives_the_hosts_own_address() -> None:
    with metadata_service(200) as (host, port):
        finding, address = canary.metadata(host, port)
    assert (finding.passed, address) == (True, OWN)


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_metadata_service_that_refuses_is_a_failure(status: int) -> None:
    with metadata_service(status) as (host, port):
        finding, address = canary.metadata(host, port)
    assert (finding.passed, finding.seen, address) == (False, str(status), None)


def test_no_metadata_service_is_a_failure() -> None:
    finding, address = canary.metadata("127.0.0.1", 9)
    assert (finding.passed, address) == (False, None)
    assert finding.seen.startswith("ConnectionRefusedError")


def test_what_a_build_step_tries() -> None:
    assert canary.checks(OWN, 4711) == [
        Check("169.254.169.254", 80, CLOSED),
        Check("fd00:ec2::254", 80, CLOSED),
        Check("172.17.0.1", 4711, CLOSED),
        Check(OWN, 4711, CLOSED),
        Check("172.17.0.1", 7788, OPEN),
    ]


def answers(*states: str) -> list[str]:
    lines = ["#5 [canary 3/3] RUN probe"]
    for check, state in zip(canary.checks(OWN, 4711), states, strict=True):
        if state:
            lines.append(f"#5 0.123 rocm-build-canary: {check.argument} {state}")
    return lines


def test_every_check_as_expected_passes() -> None:
    findings = canary.judge(canary.checks(OWN, 4711), answers(CLOSED, CLOSED, CLOSED, CLOSED, OPEN))
    assert [finding.passed for finding in findings] == [True] * 5


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("state", ["", "opposite"])
def test_one_check_otherwise_or_without_answer_fails(number: int, state: str) -> None:
    states = [CLOSED, CLOSED, CLOSED, CLOSED, OPEN]
    states[number] = "" if not state else (OPEN if states[number] == CLOSED else CLOSED)
    findings = canary.judge(canary.checks(OWN, 4711), answers(*states))
    assert [finding.passed for finding in findings] == [place != number for place in range(5)]
    assert findings[number].seen == (states[number] or "no answer")


def test_printed_name_of_the_step_is_no_answer() -> None:
    """BuildKit prints the RUN line itself, the checks in it included."""
    log = ["#5 [canary 3/3] RUN rocm-build-canary: 172.17.0.1,7788 open"]
    assert not any(finding.passed for finding in canary.judge(canary.checks(OWN, 4711), log))


def test_a_finding_says_what_was_tried_expected_and_seen() -> None:
    assert str(Finding("a", OPEN, OPEN)) == "canary: ok: a: expected open, seen open"
    assert str(Finding("a", CLOSED, OPEN)) == "canary: FAILED: a: expected closed, seen open"


def test_listener_answers_with_its_word() -> None:
    with canary.Listener() as listener:
        assert listener.answers("127.0.0.1").passed
        port = listener.port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 1)


def test_listener_out_of_reach_proves_nothing() -> None:
    with canary.Listener() as listener:
        listener.port = 9
        finding = listener.answers("127.0.0.1")
    assert not finding.passed
    assert "refused" in finding.seen


def test_probe_sees_open_and_closed_ports() -> None:
    with canary.Listener() as listener:
        checks = [f"127.0.0.1,{listener.port}", "127.0.0.1,9", "::1,9"]
        done = subprocess.run(["bash", str(PROBE), *checks], capture_output=True, text=True, check=True)
    assert sorted(done.stdout.splitlines()) == sorted(
        [
            f"rocm-build-canary: {checks[0]} open",
            "rocm-build-canary: 127.0.0.1,9 closed",
            "rocm-build-canary: ::1,9 closed",
        ]
    )


def test_command_has_a_new_nonce_each_time(tmp_path: Path) -> None:
    (tmp_path / "ami").mkdir()
    (tmp_path / "ami/base.hcl").touch()
    first, second = (canary.command(tmp_path, [Check("h", 1, OPEN)]) for _ in range(2))
    nonce = first.pop(-3)
    assert nonce.startswith("--set=canary.args.CANARY_NONCE=")
    assert second.pop(-3) != nonce
    assert first == second
    assert first == [
        *("docker", "buildx", "bake", "-f", "rocm-bake.hcl", "-f", "ami/base.hcl"),
        *("-f", "buildspec/box/canary/canary.hcl", "--progress=plain"),
        "--set=canary.args.CANARY_CHECKS=h,1",
        "canary",
    ]


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A docker that does the bake's RUN on this host, without an image; the addresses are the host's own."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(canary, "metadata", lambda: (Finding("imds", "200", "200"), "127.0.0.1"))
    monkeypatch.setattr(box, "BRIDGE_ADDRESS", "127.0.0.1")
    return executable(tmp_path / "bin/docker", "#!/bin/sh\nexit 1\n")


def fake_bake(docker: Path, states: str, exit_code: int = 0) -> None:
    """Makes the bake answer every check with the states given, in order."""
    executable(
        docker,
        f"""#!/usr/bin/python3
import sys
checks = next(a for a in sys.argv if "CANARY_CHECKS=" in a).partition("CHECKS=")[2].split()
print("#5 [canary 3/3] RUN probe")
for check, state in zip(checks, {json.dumps(states.split())}):
    print("#5 0.1 rocm-build-canary:", check, state)
sys.exit({exit_code})
""",
    )


@pytest.mark.parametrize(
    ("states", "bake", "exit_code"),
    [
        ("closed closed closed closed open", 0, 0),
        ("open closed closed closed open", 0, 1),
        ("closed closed open open open", 0, 1),
        ("closed closed closed closed closed", 0, 1),
        ("closed closed closed closed", 0, 1),
        ("closed closed closed closed open", 1, 1),
        ("", 1, 1),
    ],
)
def test_canary_fails_closed(
    docker: Path, capfd: pytest.CaptureFixture[str], states: str, bake: int, exit_code: int
) -> None:
    fake_bake(docker, states, bake)
    assert canary.main() == exit_code
    output = capfd.readouterr().out
    assert ("canary: FAILED: " in output) == (exit_code == 1)
    assert output.count("canary: ok: ") + output.count("canary: FAILED: ") == 9


def test_canary_without_metadata_service_does_not_bake(
    docker: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    fake_bake(docker, "closed closed closed closed open")
    monkeypatch.setattr(canary, "metadata", lambda: (Finding("imds", "200", "404"), None))
    assert canary.main() == 1
    assert "RUN probe" not in capfd.readouterr().out
