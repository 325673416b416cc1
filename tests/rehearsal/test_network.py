"""The network of boxes, in namespaces and without a box: who reaches what, and that nothing outlives its starter."""

from __future__ import annotations

import concurrent.futures
import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from rehearsal.cloud import REGISTRY_HOST
from rehearsal.network import AWS_ADDRESS, DNS_ADDRESS, METADATA_ADDRESS, S3_ADDRESS, Edge
from rehearsal.reachability import NOTHING, Egress, Reach
from rehearsal.setup import Setup
from tests.conftest import cannot_run

T = TypeVar("T")
BOX = "0123abcd"
HTTPS = Egress("tcp", (443, 443), "0.0.0.0/0")
ALL = Egress("-1", None, "0.0.0.0/0")
# Longer than any answer here takes, shorter than the first repetition of a lost packet.
PATIENCE = 0.9


@pytest.fixture(scope="module", autouse=True)
def able(setup: Setup) -> None:
    if setup.cannot_boot is not None:
        cannot_run(f"needs what a booted box does: {setup.cannot_boot}")


def in_namespace(name: str, function: Callable[[], T]) -> T:
    """Call a function in a network namespace: a thread changes it for itself alone, and this one ends here."""
    given: list[T] = []

    def run() -> None:
        with Path("/run/netns", name).open() as handle:
            assert ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), 0x40000000) == 0
        given.append(function())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return given[0]


def own_address() -> str:
    """An address of this machine that is not its loopback: to a box it is somewhere outside."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            cannot_run("needs a network interface besides loopback")
        return str(probe.getsockname()[0])


class Place:
    """A box's namespace, and a listener at each thing that it could reach."""

    def __init__(self, edge: Edge) -> None:
        self.edge = edge
        self.namespace = edge.add_box(BOX, "10.64.0.20", "02:00:00:00:00:01")
        self.outside = socket.create_server((own_address(), 0))
        self.aws = edge.listen(AWS_ADDRESS, 443)
        self.s3 = edge.listen(S3_ADDRESS, 443)
        self.metadata = edge.listen(METADATA_ADDRESS, 80)
        self.targets: dict[str, tuple[str, int]] = {
            "outside": self.outside.getsockname()[:2],
            "aws": (AWS_ADDRESS, 443),
            "s3": (S3_ADDRESS, 443),
            "metadata": (METADATA_ADDRESS, 80),
            "dns": (DNS_ADDRESS, 53),
        }

    @property
    def to_outside(self) -> Egress:
        port = self.targets["outside"][1]
        return Egress("tcp", (port, port), "0.0.0.0/0")

    def connect(self, target: str) -> socket.socket | None:
        def attempt() -> socket.socket | None:
            try:
                return socket.create_connection(self.targets[target], timeout=PATIENCE)
            except TimeoutError:
                return None

        return in_namespace(self.namespace, attempt)

    def reached(self) -> set[str]:
        with concurrent.futures.ThreadPoolExecutor() as pool:
            found = dict(zip(self.targets, pool.map(self.connect, self.targets), strict=True))
        for connection in found.values():
            if connection is not None:
                connection.close()
        return {target for target, connection in found.items() if connection is not None}

    def reaches(self, expected: set[str]) -> set[str]:
        """What is reached, asked again when not all of it is: a busy machine may be late with an answer."""
        found = self.reached()
        for _ in range(20):
            found |= set() if expected <= found else self.reached()
        return found

    def close(self) -> None:
        for listener in (self.outside, self.aws, self.s3, self.metadata):
            listener.close()


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    with Edge(secrets.token_hex(3), tmp_path_factory.mktemp("edge")) as edge:
        yield edge


@pytest.fixture
def place(edge: Edge) -> Iterator[Place]:
    place = Place(edge)
    yield place
    place.close()
    edge.remove_box(place.namespace)


ALWAYS = {"dns", "metadata"}


def test_a_box_reaches_what_its_instance_does(place: Place) -> None:
    assert place.reaches(ALWAYS) == ALWAYS
    for internet, s3, egress, expected in (
        (True, True, {ALL}, {"outside", "aws", "s3"}),
        (True, True, {HTTPS}, {"aws", "s3"}),
        (True, True, {place.to_outside}, {"outside"}),
        (True, True, {HTTPS, place.to_outside}, {"outside", "aws", "s3"}),
        (True, True, {Egress("udp", (443, 443), "0.0.0.0/0")}, set()),
        (True, True, {Egress("tcp", (1, 65535), f"{S3_ADDRESS}/32")}, {"s3"}),
        (True, True, set(), set()),
        (False, True, {ALL}, {"s3"}),
        (False, True, {HTTPS}, {"s3"}),
        (False, False, {ALL}, set()),
    ):
        reach = Reach(internet=internet, s3=s3, egress=frozenset(egress))
        place.edge.allow(BOX, reach)
        assert place.reaches(ALWAYS | expected) == ALWAYS | expected, reach
    place.edge.allow(BOX, NOTHING)
    assert place.reaches(ALWAYS) == ALWAYS


def answers(connection: socket.socket, listener: socket.socket, patience: float) -> bool:
    """Whether something that is sent arrives."""
    connection.sendall(b"x")
    listener.settimeout(patience)
    try:
        return listener.recv(1) == b"x"
    except TimeoutError:
        return False


def test_a_connection_ends_with_its_way_and_outlives_its_egress_rule(place: Place) -> None:
    open_way = Reach(internet=True, s3=True, egress=frozenset({HTTPS}))
    place.edge.allow(BOX, open_way)
    connection = None
    while connection is None:
        connection = place.connect("s3")
    accepted, _ = place.s3.accept()
    with connection, accepted:
        assert answers(connection, accepted, patience=60)
        place.edge.allow(BOX, Reach(internet=True, s3=True, egress=frozenset()))
        assert answers(connection, accepted, patience=60)
        place.edge.allow(BOX, Reach(internet=True, s3=False, egress=frozenset({HTTPS})))
        assert not answers(connection, accepted, PATIENCE)


def test_boxes_do_not_reach_each_other(place: Place) -> None:
    other = place.edge.add_box("fedcba98", "10.64.0.21", "02:00:00:00:00:02")
    listener = in_namespace(other, lambda: socket.create_server(("10.64.0.21", 443)))
    place.targets["other"] = ("10.64.0.21", 443)
    everything = Reach(internet=True, s3=True, egress=frozenset({ALL}))
    place.edge.allow(BOX, everything)
    place.edge.allow("fedcba98", everything)
    with listener:
        assert place.connect("other") is None
    place.edge.remove_box(other)


def resolve(name: str) -> str:
    """The address of a name, by one question to the VPC's resolver."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    question = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + labels + b"\x00\x00\x01\x00\x01"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(5)
        asking.sendto(question, (DNS_ADDRESS, 53))
        return socket.inet_ntoa(asking.recv(512)[-4:])


def test_names(place: Place) -> None:
    """Only S3 has a way of its own."""
    for name, address in (
        ("s3.us-east-1.amazonaws.com", S3_ADDRESS),
        ("a-bucket.s3.us-east-1.amazonaws.com", S3_ADDRESS),
        ("a-bucket.s3.amazonaws.com", S3_ADDRESS),
        ("sts.us-east-1.amazonaws.com", AWS_ADDRESS),
        ("logs.us-east-1.amazonaws.com", AWS_ADDRESS),
        (REGISTRY_HOST, AWS_ADDRESS),
    ):
        assert in_namespace(place.namespace, lambda name=name: resolve(name)) == address, name  # type: ignore[misc]  # mypy cannot type a lambda's default


_STARTER = """
import sys, time
from pathlib import Path
from rehearsal.cloud.server import Cloud
from rehearsal.network import Edge
from tests.rehearsal.conftest import listening
with Edge(sys.argv[1], Path(sys.argv[2]) / "edge"), Cloud(Path(sys.argv[2]) / "cloud") as cloud:
    cloud.start([listening()])
    print("started", flush=True)
    time.sleep(600)
"""


def test_nothing_outlives_a_starter_that_is_killed(tmp_path: Path) -> None:
    name = secrets.token_hex(3)
    starter = subprocess.Popen([sys.executable, "-c", _STARTER, name, tmp_path], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    assert starter.stdout.readline() == "started\n"
    children = [int(pid) for pid in Path(f"/proc/{starter.pid}/task/{starter.pid}/children").read_text().split()]
    programs = sorted(Path(f"/proc/{child}/comm").read_text().strip() for child in children)
    assert programs == ["dnsmasq", "docker-registry", "slirp4netns"]
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    starter.stdout.close()
    deadline = time.monotonic() + 10
    while any(alive(child) for child in children):
        assert time.monotonic() < deadline, [child for child in children if alive(child)]
        time.sleep(0.05)
    # The next edge of the name clears the namespaces away.
    with Edge(name, tmp_path / "next"):
        pass
    assert not Path(f"/run/netns/rbb-{name}-edge").exists()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
