"""The rehearsal's cloud as one object: start it on sockets, use it, stop it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

import boto3

from rehearsal.cloud import REGION
from rehearsal.cloud.backends import Backends
from rehearsal.cloud.credentials import Credential, Keyring
from rehearsal.cloud.faults import Faults
from rehearsal.cloud.front import Front
from rehearsal.cloud.imds import MetadataService, limit_hops
from rehearsal.cloud.journal import Journal
from rehearsal.cloud.registry import Registry
from rehearsal.cloud.rules import Ruleset
from rehearsal.cloud.serving import HttpServer
from rehearsal.cloud.settings import Settings
from rehearsal.cloud.tls import Authority
from rehearsal.cloud.world import World

LOOPBACK = "127.0.0.1"
OPERATOR = "operator"


class Cloud:
    """An AWS in one account (`rehearsal.cloud.ACCOUNT`) and one region (`rehearsal.cloud.REGION`).

    There can be one at a time in a process, because moto's state is global. Everything it writes
    (certificates, journals, the registry's images) is under `directory`.

    Use as a context manager: leaving it stops everything.
    """

    def __init__(self, directory: Path, authority: Authority | None = None) -> None:
        """Prepare a cloud.

        Args:
            directory: where everything that it writes goes.
            authority: whom the boxes trust already; by default one of its own, under `directory`.
        """
        self.directory = directory
        self._authority = authority or Authority(directory / "tls").make()
        self._journal = Journal(directory)
        self.keyring = Keyring(self._journal)
        self._world = World(Backends(), self.keyring)
        self._rules = Ruleset()
        self._registry = Registry(directory / "registry", self._world)
        self._front = Front(self._world, self._rules, self._registry, self._journal)
        self._servers: list[HttpServer] = []
        self._endpoint = ""
        self._session = boto3.Session(region_name=REGION)
        self._session_lock = threading.Lock()
        self.operator: Credential = self.keyring.issue_user(OPERATOR, unrestricted=True)

    @property
    def ca_certificate(self) -> Path:
        """The certificate that a client has to trust, PEM."""
        return self._authority.certificate

    @property
    def endpoint(self) -> str:
        """The address of all services on this machine's loopback interface."""
        return self._endpoint

    @property
    def faults(self) -> Faults:
        """What goes wrong on demand."""
        return self._world.faults

    @property
    def settings(self) -> Settings:
        """Delays, quota and capacity."""
        return self._world.settings

    @property
    def ec2_changes(self) -> int:
        """How many requests have changed something in EC2; another number than before means to look again."""
        return self._front.ec2_changes

    def without(self, rule: str) -> AbstractContextManager[None]:
        """Switch one of the rules (`rehearsal.cloud.rules.EVERY_RULE`) off for the time of a `with` block.

        Raises:
            ValueError: there is no such rule.
        """
        return self._rules.without(rule)

    def start(
        self,
        front_sockets: Sequence[socket.socket],
        imds_socket: socket.socket | None = None,
        *,
        with_registry: bool = True,
    ) -> None:
        """Serve AWS over HTTPS on `front_sockets`, and the metadata service on `imds_socket`.

        Without the registry, whose program not every machine has, nothing can be pushed.

        All sockets are bound and listening, in whatever network namespace, and belong to the cloud from now
        on. One of the front's is on 127.0.0.1: the operator's.

        Raises:
            ValueError: none of the front's sockets is on 127.0.0.1.
            RegistryError: the registry does not start.
        """
        ports = [port for host, port in (item.getsockname()[:2] for item in front_sockets) if host == LOOPBACK]
        if not ports:
            raise ValueError(f"front_sockets: none is bound to {LOOPBACK}, where the operator reaches the cloud")
        self._endpoint = f"https://{LOOPBACK}:{ports[0]}"
        # The first EC2 request would wait three seconds for this; the operator's tools take about as long to
        # start.
        threading.Thread(target=import_module, args=("moto.ec2.models",), daemon=True).start()
        if with_registry:
            self._registry.start()
        context = self._authority.server_context()
        self._servers = [HttpServer(item, self._front, self._journal.error, context) for item in front_sockets]
        if imds_socket is not None:
            limit_hops(imds_socket)
            self._servers.append(
                HttpServer(imds_socket, MetadataService(self._world, self._rules, self._journal), self._journal.error)
            )
        for server in self._servers:
            server.start()

    def stop(self) -> None:
        """End the servers, their connections and the registry; once."""
        self.faults.close()
        for server in self._servers:
            server.close()
        self._registry.stop()
        self._journal.close()

    def operator_environment(self) -> dict[str, str]:
        """The environment with which Pulumi and boto3 reach this cloud as the operator. Holds secrets."""
        return {
            "AWS_ACCESS_KEY_ID": self.operator.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.operator.secret_access_key,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": self._endpoint,
            "AWS_CA_BUNDLE": str(self.ca_certificate),
            # Whatever machine this is, its own metadata service is not to be asked.
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def client(self, service: str, credential: Credential | None = None) -> Any:
        """A boto3 client as the operator, or as whoever holds `credential`."""
        used = credential or self.operator
        # One session keeps the parsed service models, of which EC2's alone takes half a second; making a
        # client of it is not safe for threads.
        with self._session_lock:
            return self._session.client(  # type: ignore[call-overload]  # one overload for each literal name
                service,
                aws_access_key_id=used.access_key_id,
                aws_secret_access_key=used.secret_access_key,
                aws_session_token=used.token,
                endpoint_url=self._endpoint,
                verify=str(self.ca_certificate),
            )

    def set_instance_state(self, instance_id: str, state: str) -> None:
        """Say what a machine has done by itself: EC2 learns it from the hypervisor, here from who runs the
        box.

        Args:
            instance_id: whose.
            state: `stopped`, `terminated` or `running`.

        Raises:
            ValueError: another state.
        """
        with self._world.backends.locked():
            ec2 = self._world.backends.ec2()
            if state == "terminated":
                ec2.terminate_instances([instance_id])
            elif state == "stopped":
                ec2.stop_instances([instance_id])
            elif state == "running":
                ec2.start_instances([instance_id])
            else:
                raise ValueError(f"state is {state!r}; stopped, terminated and running are allowed")

    def __enter__(self) -> Cloud:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
