"""The network of the rehearsal: a namespace that plays the edge of a VPC, and one for each box.

Nothing of it touches this machine's own network: no address, route, firewall rule or sysctl outside the namespaces. The
way out (Debian's mirrors) is slirp4netns, an ordinary process.

    box (its EC2 private address) ── veth ── edge ── slirp ── out
                                              10.64.0.2 DNS · 198.51.100.10 AWS · 169.254.169.254 metadata
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rehearsal.console import StepError, last_lines
from rehearsal.tools.system import which

DNS_ADDRESS = "10.64.0.2"
"""The VPC's resolver: the base of the VPC's network plus two, as on AWS."""

AWS_ADDRESS = "198.51.100.10"
"""Where every name below amazonaws.com leads: an address of TEST-NET-2 (RFC 5737), so public as AWS's are."""

METADATA_ADDRESS = "169.254.169.254"

_ROUTER_ADDRESS = "10.64.0.1"
_SLIRP_DNS = "10.0.2.3"
_CLONE_NEWNET = 0x40000000
_START_SECONDS = 10.0

_NAT = """\
table ip edge {
  chain postrouting {
    type nat hook postrouting priority srcnat
    oifname "tap0" masquerade
  }
}
"""


def command(*arguments: str, stdin: str | None = None) -> str:
    """Run a short program and give its output.

    Raises:
        StepError: with what the program said, when it exits with another code than 0.
    """
    program = which(arguments[0]) or arguments[0]
    done = subprocess.run([program, *arguments[1:]], input=stdin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StepError(" ".join(arguments), f"exited {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def socket_in(namespace: str, address: str, port: int) -> socket.socket:
    """A listening TCP socket that belongs to network namespace `namespace`, for a server that runs outside it."""
    made: list[socket.socket] = []
    failed: list[OSError] = []

    def listen() -> None:
        # A thread changes namespace for itself alone, and this one ends here: nothing else is moved.
        try:
            with Path("/run/netns", namespace).open() as handle:
                libc = ctypes.CDLL(None, use_errno=True)
                if libc.setns(handle.fileno(), _CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), f"setns {namespace}")
            made.append(socket.create_server((address, port), backlog=128))
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return made[0]


class Edge:
    """The namespaces' common end: routes, DNS, the way out. A context manager; leaving it removes every trace."""

    def __init__(self, name: str, directory: Path) -> None:
        """Prepare an edge.

        Args:
            name: tells the namespaces of two rehearsals on one machine apart; at most 8 characters.
            directory: where the logs of its processes go.
        """
        self.namespace = f"rbb-{name}-edge"
        self._prefix = f"rbb-{name}"
        self._directory = directory
        self._processes: list[subprocess.Popen[bytes]] = []
        self._boxes: list[str] = []

    def __enter__(self) -> Self:
        remove_namespaces(self._prefix)
        self._directory.mkdir(parents=True, exist_ok=True)
        command("ip", "netns", "add", self.namespace)
        self._ip("link", "set", "lo", "up")
        for address in (_ROUTER_ADDRESS, DNS_ADDRESS, AWS_ADDRESS, METADATA_ADDRESS):
            self._ip("address", "add", f"{address}/32", "dev", "lo")
        self._inside("sysctl", "--quiet", "--write", "net.ipv4.ip_forward=1")
        self._start_slirp()
        self._inside("nft", "--file", "-", stdin=_NAT)
        self._start_dns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the processes and remove the namespaces."""
        for process in reversed(self._processes):
            process.terminate()
            process.wait()
        remove_namespaces(self._prefix)

    def listen(self, address: str, port: int) -> socket.socket:
        """A listening socket on one of the edge's addresses."""
        return socket_in(self.namespace, address, port)

    def add_box(self, box: str, address: str, mac: str) -> str:
        """Make a fresh namespace for a box with its EC2 address, and give the namespace's name.

        It has to be fresh for each boot: firewall rules of a box before it would still be there.
        """
        namespace = f"{self._prefix}-{box}"
        interface = f"v{box}"[:15]
        command("ip", "netns", "add", namespace)
        inside = ("ip", "-n", namespace)
        command(
            *("ip", "-n", self.namespace, "link", "add", interface, "type", "veth"),
            *("peer", "name", "eth0", "address", mac, "netns", namespace),
        )
        self._ip("link", "set", interface, "up")
        self._ip("route", "add", f"{address}/32", "dev", interface)
        command(*inside, "link", "set", "lo", "up")
        command(*inside, "address", "add", f"{address}/32", "dev", "eth0")
        command(*inside, "link", "set", "eth0", "up")
        command(*inside, "route", "add", _ROUTER_ADDRESS, "dev", "eth0", "src", address)
        command(*inside, "route", "add", "default", "via", _ROUTER_ADDRESS, "src", address)
        return namespace

    def remove_box(self, namespace: str) -> None:
        """Remove a box's namespace; its end of the cable here goes with it."""
        command("ip", "netns", "delete", namespace)

    def _ip(self, *arguments: str) -> None:
        command("ip", "-n", self.namespace, *arguments)

    def _inside(self, *arguments: str, stdin: str | None = None) -> str:
        return command("ip", "netns", "exec", self.namespace, *arguments, stdin=stdin)

    def _start(self, name: str, arguments: Sequence[str], ready: str) -> None:
        log = self._directory / f"{name}.log"
        program = which(arguments[0]) or arguments[0]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [program, *arguments[1:]], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        self._processes.append(process)
        deadline = time.monotonic() + _START_SECONDS
        while ready not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise StepError(name, f"did not start within {_START_SECONDS:.0f} s", last_lines=last_lines(log))
            time.sleep(0.05)

    def _start_slirp(self) -> None:
        # No host loopback: services of this machine are not part of the box's world.
        self._start(
            "slirp4netns",
            [
                *("slirp4netns", "--configure", "--mtu=65520", "--disable-host-loopback"),
                *("--netns-type=path", f"/run/netns/{self.namespace}", "tap0"),
            ],
            ready="received tapfd",
        )

    def _start_dns(self) -> None:
        # The upstream is slirp's own resolver, which asks this machine's. /etc/hosts is not part of the box's world.
        self._start(
            "dnsmasq",
            [
                *(which("ip") or "ip", "netns", "exec", self.namespace, which("dnsmasq") or "dnsmasq"),
                *("--keep-in-foreground", "--log-facility=-", "--conf-file=/dev/null", "--pid-file=", "--user=root"),
                *("--no-resolv", "--no-hosts", "--bind-interfaces", f"--listen-address={DNS_ADDRESS}"),
                *(f"--address=/amazonaws.com/{AWS_ADDRESS}", f"--server={_SLIRP_DNS}"),
            ],
            ready="started, version",
        )


def remove_namespaces(prefix: str) -> None:
    """Remove the network namespaces whose names start with `prefix`, also those of a run that was killed."""
    for line in command("ip", "netns", "list").splitlines():
        name = line.split()[0]
        if name.startswith(f"{prefix}-"):
            for process in command("ip", "netns", "pids", name).split():
                # An orphan of a killed run holds the namespace; no process of this run is in it yet.
                os.kill(int(process), 9)
            command("ip", "netns", "delete", name)
