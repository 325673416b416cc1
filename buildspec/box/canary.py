"""Proves before the bake what a build step can reach: ``python3 -m buildspec.box.canary``. Fails closed.

A real RUN in the real builder must not reach the metadata service, which would give it the box's own role,
nor any port of the host but the credential service's. The opposite is proved as well, because a network that
is down would pass the first: on the host the metadata service answers, and so does a listener that the step
must not reach.
"""

from __future__ import annotations

import http.client
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from buildspec.box import buildkit
from buildspec.box import config as box
from buildspec.box.bake import bake_files

CANARY_BAKE_FILE = "buildspec/box/canary/canary.hcl"
PREFIX = "rocm-build-canary: "

# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
METADATA_ADDRESS = "169.254.169.254"
METADATA_ADDRESS_IPV6 = "fd00:ec2::254"
METADATA_PORT = 80
METADATA_TOKEN_SECONDS = "60"  # noqa: S105  # a duration

TIMEOUT_SECONDS = 5.0

OPEN, CLOSED = "open", "closed"


@dataclass(frozen=True)
class Check:
    """One connection that a build step tries."""

    host: str
    port: int
    expected: str
    """:data:`OPEN` or :data:`CLOSED`."""

    @property
    def argument(self) -> str:
        """How canary/probe.sh takes it, and names it in its answer."""
        return f"{self.host},{self.port}"


@dataclass(frozen=True)
class Finding:
    """What was tried, expected and seen."""

    tried: str
    expected: str
    seen: str

    @property
    def passed(self) -> bool:
        """True when it was seen as expected."""
        return self.seen == self.expected

    def __str__(self) -> str:
        verdict = "ok" if self.passed else "FAILED"
        return f"canary: {verdict}: {self.tried}: expected {self.expected}, seen {self.seen}"


class Listener:
    """A port of the host that nobody protects by itself: says a word to everyone who connects."""

    def __init__(self) -> None:
        self.word = secrets.token_hex(8)
        self._socket = socket.create_server(("0.0.0.0", 0))  # noqa: S104  # so that only the firewall is in the way
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, name="canary-listener", daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return  # closed
            with connection:
                connection.sendall(self.word.encode())

    def answers(self, host: str) -> Finding:
        """Return what this host itself hears at the address."""
        try:
            with socket.create_connection((host, self.port), TIMEOUT_SECONDS) as connection:
                heard = connection.recv(len(self.word)).decode()
        except OSError as error:
            heard = str(error)
        return Finding(f"from the host: {host}:{self.port}", OPEN, OPEN if heard == self.word else heard)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # A thread in accept() does not notice a close by itself.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def metadata(host: str = METADATA_ADDRESS, port: int = METADATA_PORT) -> tuple[Finding, str | None]:
    """Asks the metadata service, as version 2 has it, for this host's own address."""
    tried = f"from the host: IMDSv2 at {host}:{port}"
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
    try:
        headers = {"X-aws-ec2-metadata-token-ttl-seconds": METADATA_TOKEN_SECONDS}
        connection.request("PUT", "/latest/api/token", headers=headers)
        answer = connection.getresponse()
        token = answer.read().decode()
        if answer.status != http.HTTPStatus.OK:
            return Finding(tried, "200", str(answer.status)), None
        connection.request("GET", "/latest/meta-data/local-ipv4", headers={"X-aws-ec2-metadata-token": token})
        answer = connection.getresponse()
        address = answer.read().decode().strip()
        if answer.status != http.HTTPStatus.OK:
            return Finding(tried, "200", str(answer.status)), None
        return Finding(tried, "200", "200"), address
    except (OSError, http.client.HTTPException) as error:
        return Finding(tried, "200", f"{type(error).__name__}: {error}"), None
    finally:
        connection.close()


def checks(own_address: str, port: int) -> list[Check]:
    """Return what a build step tries, with the listener at ``port`` of the host."""
    return [
        Check(METADATA_ADDRESS, METADATA_PORT, CLOSED),
        Check(METADATA_ADDRESS_IPV6, METADATA_PORT, CLOSED),
        Check(box.BRIDGE_ADDRESS, port, CLOSED),
        Check(own_address, port, CLOSED),
        Check(box.BRIDGE_ADDRESS, box.CREDENTIALS_PORT, OPEN),
    ]


def judge(wanted: Sequence[Check], log: Sequence[str]) -> list[Finding]:
    """Compare what the build step printed with what was wanted; a check without an answer has failed."""
    seen: dict[str, str] = {}
    for vertex in buildkit.vertices(log, keep=PREFIX):
        for line in vertex.output:
            argument, _, state = line.removeprefix(PREFIX).partition(" ")
            seen[argument] = state
    return [
        Finding(
            f"from a build step: {check.host} port {check.port}",
            check.expected,
            seen.get(check.argument, "no answer"),
        )
        for check in wanted
    ]


def command(context: Path, wanted: Sequence[Check]) -> list[str]:
    """Return the bake of the canary. The nonce keeps the layer cache from answering instead of the network."""
    return [
        *("docker", "buildx", "bake", *bake_files(context), "-f", CANARY_BAKE_FILE, "--progress=plain"),
        f"--set=canary.args.CANARY_NONCE={secrets.token_hex(8)}",
        f"--set=canary.args.CANARY_CHECKS={' '.join(check.argument for check in wanted)}",
        "canary",
    ]


def _run(argv: Sequence[str]) -> tuple[int, list[str]]:
    """Run the command, printing its output as it comes."""
    lines = []
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip("\n"))
    return process.returncode, lines


def main() -> int:
    """Run the canary in the current directory."""
    found, own_address = metadata()
    findings = [found]
    if own_address is not None:
        with Listener() as listener:
            findings += [listener.answers(host) for host in (box.BRIDGE_ADDRESS, own_address)]
            wanted = checks(own_address, listener.port)
            exit_code, log = _run(command(Path.cwd(), wanted))
        findings += [Finding("the canary's bake: exit code", "0", str(exit_code)), *judge(wanted, log)]
    for finding in findings:
        print(finding)
    if own_address is None or not all(finding.passed for finding in findings):
        print("canary: build steps are not shut in as they must be; no bake starts")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
