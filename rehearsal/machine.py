"""A box that boots on this machine as an EC2 instance does: systemd-nspawn, its own network, cloud-init by metadata."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from rehearsal.console import last_lines
from rehearsal.network import Edge
from rehearsal.reachability import Reach
from rehearsal.tools.store import remove_tree
from rehearsal.tools.system import ending_with_this_thread, which

# cloud-init takes an instance for AWS, and so uses IMDSv2, when its hypervisor's UUID starts with ec2
# (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/identify_ec2_instances.html).
_HYPERVISOR_UUID = "ec2e1916-9099-7caf-fd21-012345abcdef\n"

_BOOT = Path(__file__).parent / "boot-box.sh"
_STOP_SECONDS = 30.0


class Machine:
    """One booted box. Its files are an overlay above file systems that several boxes share."""

    def __init__(
        self, instance_id: str, *, address: str, mac: str, layers: Sequence[Path], edge: Edge, directory: Path
    ) -> None:
        """Prepare a box; `boot` starts it.

        Args:
            instance_id: EC2's id.
            address: EC2's private address of it, which is the address it gets.
            mac: EC2's hardware address of its interface.
            layers: the trees it starts from, the uppermost first; they are not written to.
            edge: the network it is plugged into.
            directory: where its console's log and its own files are kept.
        """
        self.instance_id = instance_id
        self.directory = directory
        self.console_log = directory / "console.log"
        self.address = address
        self._mac = mac
        self._layers = layers
        self._edge = edge
        self._namespace = ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> Path:
        """What the box wrote: its changes above the root file system."""
        return self.directory / "overlay" / "upper"

    def boot(self) -> None:
        """Start the box; returns at once. It ends with the thread that calls this."""
        hypervisor = self.directory / "hypervisor"
        hypervisor.mkdir(parents=True)
        (hypervisor / "uuid").write_text(_HYPERVISOR_UUID)
        self._namespace = self._edge.add_box(self._box, self.address, self._mac)
        lower = ":".join(map(str, self._layers))
        with self.console_log.open("wb") as log:
            self._process = subprocess.Popen(
                ending_with_this_thread(
                    [
                        *(which("unshare") or "unshare", "--mount", "--propagation", "private"),
                        # systemd-nspawn that is killed leaves its box running; a process namespace does not.
                        *("--pid", "--fork", "--kill-child", "--mount-proc"),
                        *(
                            _BOOT,
                            lower,
                            self.directory / "overlay",
                            self._namespace,
                            hypervisor,
                        ),
                    ]
                ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def allow(self, reach: Reach) -> None:
        """Let it reach this from now on; until the first time, it is DNS and the metadata service."""
        self._edge.allow(self._box, reach)

    @property
    def _box(self) -> str:
        return self.instance_id[-8:]

    @property
    def plugged(self) -> bool:
        """Whether it holds its place in the network: from `boot` until `kill`."""
        return bool(self._namespace)

    @property
    def running(self) -> bool:
        """Whether the box is up; False once it has powered itself off."""
        return self._process is not None and self._process.poll() is None

    def leader(self) -> int | None:
        """The process id, on this machine, of the box's systemd; None before it runs and after."""
        if self._process is None:
            return None
        # unshare, the first process of its namespace (boot-box.sh), systemd-nspawn, the box's systemd.
        pid = self._process.pid
        for _ in range(3):
            child = first_child(pid)
            if child is None:
                return None
            pid = child
        return pid

    def _running_leader(self) -> int:
        leader = self.leader()
        if leader is None:
            raise RuntimeError(f"{self.instance_id} is not running (its console: {self.console_log})")
        return leader

    def enter_command(self) -> list[str]:
        """The command that runs what is appended to it inside the box, for a person or a test.

        Raises:
            RuntimeError: when the box is not running.
        """
        return [which("nsenter") or "nsenter", "--target", str(self._running_leader()), "--all"]

    def execute(self, command: Sequence[str], *, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a command inside the box as root, with its output; `timeout` in seconds."""
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
        return subprocess.run(
            [*self.enter_command(), *command],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            env=environment,
        )

    def write(self, path: str, content: str | bytes) -> None:
        """Write a file on the running box, with the folders above it.

        Raises:
            RuntimeError: when the box is not running.
        """
        target = Path(f"/proc/{self._running_leader()}/root{path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)

    def last_words(self) -> list[str]:
        """The end of its console and of cloud-init's output, for an error message."""
        output = self.root / "var" / "log" / "cloud-init-output.log"
        return [*last_lines(self.console_log, 10), *last_lines(output, 30)]

    def kill(self) -> None:
        """Pull the plug, and free the network. The box's files stay for a look."""
        if self._process is not None:
            leader = self.leader()
            if self._process.poll() is None and leader is not None:
                # It may have powered itself off just now.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(leader, signal.SIGKILL)
            deadline = time.monotonic() + _STOP_SECONDS
            while self._process.poll() is None:
                if time.monotonic() > deadline:
                    self._process.kill()
                time.sleep(0.05)
        if self._namespace:
            self._edge.remove_box(self._namespace)
            self._namespace = ""

    def discard(self) -> None:
        """Remove the box's files; it must not run any more."""
        remove_tree(self.directory / "overlay")


def first_child(pid: int) -> int | None:
    """The process id of a process's first child; None where it has none, or has just ended itself.

    A process can end between any two looks at it, the one that opens the file and the one that reads it included.
    """
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(children[0]) if children else None
