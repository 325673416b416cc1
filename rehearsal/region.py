"""One AWS region on this machine: the stand-in cloud, its network, and the boxes that its instances boot as."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rehearsal import reachability
from rehearsal.cloud.server import LOOPBACK, Cloud
from rehearsal.cloud.tls import Authority
from rehearsal.console import StepError
from rehearsal.machine import Machine
from rehearsal.miniature.git_server import GitServer
from rehearsal.miniature.world import Miniature
from rehearsal.network import AWS_ADDRESS, GIT_ADDRESS, METADATA_ADDRESS, S3_ADDRESS, Edge
from rehearsal.tools import images
from rehearsal.tools.store import remove_tree

_POLL_SECONDS = 0.3


class Region:
    """A running region; a context manager that ends everything in it.

    Instances that EC2 says are running boot as machines. A machine that powers itself off becomes `terminated` or
    `stopped`, as its shutdown behaviour says; an instance that EC2 terminates loses its machine. A machine reaches what
    EC2's state lets its instance reach (`rehearsal.reachability`); a change of that state shows within a second.
    """

    def __init__(self, directory: Path, rootfs: Path | None, miniature: Miniature | None = None) -> None:
        """Prepare a region.

        Args:
            directory: its files: journals, registry, the machines' overlays and consoles.
            rootfs: what its machines boot from; None boots nothing, on a machine that cannot.
            miniature: brings the small upstreams and base images, for targets other than `cache-probe`.
        """
        self.directory = directory
        self.machines: dict[str, Machine] = {}
        self._rootfs = rootfs
        self._miniature = miniature
        self._cleanup = contextlib.ExitStack()
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        # Enough to tell the namespaces of two checkouts apart; a name of an interface has 15 characters.
        self._name = hashlib.sha256(os.fsencode(directory)).hexdigest()[:6]

    def __enter__(self) -> Self:
        with self._cleanup:
            remove_tree(self.directory / "machines")
            self._edge = (
                self._cleanup.enter_context(Edge(self._name, self.directory / "edge")) if self._rootfs else None
            )
            authority = Authority(images.authority_directory()).make()
            self.cloud = self._cleanup.enter_context(Cloud(self.directory / "cloud", authority))
            fronts = [socket.create_server((LOOPBACK, 0), backlog=128)]
            metadata = None
            if self._edge is not None:
                fronts.extend(self._edge.listen(address, 443) for address in (AWS_ADDRESS, S3_ADDRESS))
                metadata = self._edge.listen(METADATA_ADDRESS, 80)
                if self._miniature is not None:
                    git = self._edge.listen(GIT_ADDRESS, 80)
                    self._cleanup.enter_context(GitServer(self._miniature.upstreams.directory, git))
            self.cloud.start(fronts, metadata, with_registry=self._edge is not None)
            self._ec2 = self.cloud.client("ec2")
            self._cleanup.callback(self._stop_machines)
            if self._edge is not None:
                hypervisor = threading.Thread(target=self._watch_instances, daemon=True)
                hypervisor.start()
                self._cleanup.callback(hypervisor.join)
                self._cleanup.callback(self._stopping.set)
            self._cleanup = self._cleanup.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    def environment(self) -> Mapping[str, str]:
        """The environment with which the operator reaches this region."""
        return self.cloud.operator_environment()

    def check(self) -> None:
        """Raise what ended the hypervisor, which runs beside the caller.

        Raises:
            StepError: when instances are no longer followed.
        """
        if self._failure is not None:
            raise StepError("hypervisor", f"{self._failure!r}", last_lines=traceback.format_exception(self._failure))

    def wait_for_machine(self, instance_id: str, *, timeout: float = 30.0) -> Machine:
        """The machine of an instance, once commands can be run in it.

        Raises:
            StepError: when that takes longer than `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        while True:
            self.check()
            machine = self.machines.get(instance_id)
            if machine is not None and machine.leader() is not None:
                answer = machine.execute(["systemctl", "show", "--property=Version"])
                if answer.returncode == 0:
                    return machine
            if time.monotonic() > deadline:
                raise StepError(f"boot of {instance_id}", f"not within {timeout:.0f} s")
            time.sleep(_POLL_SECONDS)

    def _instances(self) -> Iterator[dict[str, Any]]:
        for page in self._ec2.get_paginator("describe_instances").paginate():
            for reservation in page["Reservations"]:
                yield from reservation["Instances"]

    def _watch_instances(self) -> None:
        try:
            seen = 0
            while not self._stopping.wait(_POLL_SECONDS):
                changes = self.cloud.ec2_changes
                for instance in self._instances():
                    self._follow(instance)
                    machine = self.machines.get(instance["InstanceId"])
                    if changes != seen and machine is not None and machine.running:
                        machine.allow(reachability.describe(self._ec2, instance))
                seen = changes
        except Exception as error:
            # This thread has no caller; `check` raises it where somebody waits.
            self._failure = error

    def _follow(self, instance: dict[str, Any]) -> None:
        instance_id = instance["InstanceId"]
        state = instance["State"]["Name"]
        machine = self.machines.get(instance_id)
        if machine is None:
            if state == "running":
                self._boot(instance)
        elif machine.plugged and not machine.running:
            machine.kill()
            self.cloud.set_instance_state(instance_id, self._after_shutdown(instance_id))
        elif machine.running and state in ("terminated", "stopped", "shutting-down", "stopping"):
            machine.kill()

    def _boot(self, instance: dict[str, Any]) -> None:
        assert self._edge is not None
        assert self._rootfs is not None
        (interface,) = instance["NetworkInterfaces"]
        machine = Machine(
            instance["InstanceId"],
            address=instance["PrivateIpAddress"],
            mac=interface["MacAddress"],
            layers=[*(self._miniature.layers if self._miniature else ()), self._rootfs],
            edge=self._edge,
            directory=self.directory / "machines" / instance["InstanceId"],
        )
        self.machines[instance["InstanceId"]] = machine
        machine.boot()
        machine.allow(reachability.describe(self._ec2, instance))

    def _after_shutdown(self, instance_id: str) -> str:
        """The state that an instance's own power-off leads to.

        Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_ChangingInstanceInitiatedShutdownBehavior.html
        """
        answer = self._ec2.describe_instance_attribute(
            InstanceId=instance_id, Attribute="instanceInitiatedShutdownBehavior"
        )
        behaviour = answer["InstanceInitiatedShutdownBehavior"]["Value"]
        return "terminated" if behaviour == "terminate" else "stopped"

    def _stop_machines(self) -> None:
        for machine in self.machines.values():
            machine.kill()
