"""The network of the rehearsal: a namespace that plays the edge of a VPC, and one for each box.

Nothing of it touches this machine's own network: no address, route, firewall rule or sysctl outside the namespaces. The
way out (Debian's mirrors) is slirp4netns, an ordinary process.

    box (its EC2 private address) ── veth ── edge ── slirp ── out
                                             10.64.0.2 DNS, 169.254.169.254 metadata: always
                                             198.51.100.20 S3, 198.51.100.10 AWS's other services,
                                             198.51.100.30 git, out: as EC2 says
"""

from __future__ import annotations

import contextlib
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

from rehearsal.cloud import REGION
from rehearsal.console import StepError, last_lines
from rehearsal.reachability import NOTHING, Egress, Reach
from rehearsal.tools.system import ending_with_this_thread, which

DNS_ADDRESS = "10.64.0.2"
"""The VPC's resolver: the base of the VPC's network plus two, as on AWS."""

AWS_ADDRESS = "198.51.100.10"
"""Where every other name below amazonaws.com leads: an address of TEST-NET-2 (RFC 5737), so public as AWS's are."""

S3_ADDRESS = "198.51.100.20"
"""Where S3's names lead: it can be reached by another way than the rest of AWS."""

GIT_ADDRESS = "198.51.100.30"
"""Where the small upstreams are served, in place of GitHub."""

METADATA_ADDRESS = "169.254.169.254"

_ROUTER_ADDRESS = "10.64.0.1"
_SLIRP_DNS = "10.0.2.3"
_CLONE_NEWNET = 0x40000000
_START_SECONDS = 10.0

# A box's packets go through the chain of its interface; nothing else may start a connection here, and none begins in a
# box's direction.
_FIREWALL = """\
table ip edge {
  map boxes {
    type ifname : verdict
  }
  chain input {
    type filter hook input priority filter; policy drop
    iifname "lo" accept
    iifname vmap @boxes
    ct state established,related accept
  }
  chain forward {
    type filter hook forward priority filter; policy drop
    oifname != "tap0" ct state new drop
    iifname vmap @boxes
    ct state established,related accept
  }
  chain postrouting {
    type nat hook postrouting priority srcnat
    oifname "tap0" masquerade
  }
}
"""


_NO_BOX = """\
delete element ip edge boxes {{ "{interface}" }}
delete chain ip edge {interface}
delete chain ip edge {interface}-out
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
        for address in (_ROUTER_ADDRESS, DNS_ADDRESS, AWS_ADDRESS, S3_ADDRESS, GIT_ADDRESS, METADATA_ADDRESS):
            self._ip("address", "add", f"{address}/32", "dev", "lo")
        self._inside("sysctl", "--quiet", "--write", "net.ipv4.ip_forward=1")
        self._start_slirp()
        self._inside("nft", "--file", "-", stdin=_FIREWALL)
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

        Until `allow` says more, it reaches DNS and the metadata service. The namespace has to be fresh for each boot:
        firewall rules of a box before it would still be there.
        """
        namespace = f"{self._prefix}-{box}"
        interface = _interface(box)
        command("ip", "netns", "add", namespace)
        self._inside("nft", "--file", "-", stdin=_box_firewall(interface, NOTHING))
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

    def allow(self, box: str, reach: Reach) -> None:
        """Let a box reach what EC2 lets its instance reach, and no more.

        A connection is cut when its way is gone. One that a security group does not let out any more goes on until it
        ends, as on AWS: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/security-group-connection-tracking.html
        """
        self._inside("nft", "--file", "-", stdin=_box_firewall(_interface(box), reach))

    def remove_box(self, namespace: str) -> None:
        """Remove a box's namespace, its cable and its firewall rules."""
        interface = _interface(namespace.removeprefix(f"{self._prefix}-"))
        # Not left to the namespace's end, which the kernel puts off.
        self._ip("link", "delete", interface)
        command("ip", "netns", "delete", namespace)
        self._inside("nft", "--file", "-", stdin=_NO_BOX.format(interface=interface))

    def _ip(self, *arguments: str) -> None:
        command("ip", "-n", self.namespace, *arguments)

    def _inside(self, *arguments: str, stdin: str | None = None) -> str:
        return command("ip", "netns", "exec", self.namespace, *arguments, stdin=stdin)

    def _start(self, name: str, arguments: Sequence[str], ready: str) -> None:
        log = self._directory / f"{name}.log"
        program = which(arguments[0]) or arguments[0]
        with log.open("wb") as output:
            process = subprocess.Popen(
                ending_with_this_thread([program, *arguments[1:]]),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
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
                # Another user or group would make the kernel forget that it ends with this process.
                *("--user=root", "--group=root"),
                *("--keep-in-foreground", "--log-facility=-", "--conf-file=/dev/null", "--pid-file="),
                *("--no-resolv", "--no-hosts", "--bind-interfaces", f"--listen-address={DNS_ADDRESS}"),
                *(f"--address=/amazonaws.com/{AWS_ADDRESS}", f"--server={_SLIRP_DNS}"),
                *(f"--address=/{name}/{S3_ADDRESS}" for name in (f"s3.{REGION}.amazonaws.com", "s3.amazonaws.com")),
            ],
            ready="started, version",
        )


def _interface(box: str) -> str:
    """The name of the edge's end of a box's cable; Linux takes 15 characters."""
    return f"v{box}"[:15]


def _box_firewall(interface: str, reach: Reach) -> str:
    """The chain of a box, in place of the one before it.

    What has no way is dropped, as on AWS, so that the box waits and gets no refusal.
    """
    egress = "".join(f"    {_match(rule)} accept\n" for rule in sorted(reach.egress, key=repr))
    let_out = f"    ct state established,related accept\n{egress}    drop\n"
    return f"""\
add chain ip edge {interface}
add chain ip edge {interface}-out
flush chain ip edge {interface}
flush chain ip edge {interface}-out
table ip edge {{
  chain {interface}-out {{
{let_out}  }}
  chain {interface} {{
    ip daddr {DNS_ADDRESS} accept
    ip daddr {METADATA_ADDRESS} accept
    ip daddr {S3_ADDRESS} {f"goto {interface}-out" if reach.s3 else "drop"}
    ip daddr {_ROUTER_ADDRESS} drop
    {f"goto {interface}-out" if reach.internet else "drop"}
  }}
}}
add element ip edge boxes {{ "{interface}" : goto {interface} }}
"""


def _match(rule: Egress) -> str:
    to = f"ip daddr {rule.network}"
    if rule.protocol == "-1":
        return to
    if rule.ports is None:
        return f"{to} ip protocol {rule.protocol}"
    lowest, highest = rule.ports
    return f"{to} {rule.protocol} dport {lowest if lowest == highest else f'{lowest}-{highest}'}"


def remove_namespaces(prefix: str) -> None:
    """Remove the network namespaces whose names start with `prefix`, also those of a run that was killed."""
    for line in command("ip", "netns", "list").splitlines():
        name = line.split()[0]
        if name.startswith(f"{prefix}-"):
            for process in command("ip", "netns", "pids", name).split():
                # An orphan of a killed run holds the namespace; no process of this run is in it yet.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(process), 9)
            command("ip", "netns", "delete", name)
