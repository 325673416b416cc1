"""Programs of the operating system that the rehearsal runs, and how they are installed."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from rehearsal.console import StepError, run_logged, step
from rehearsal.tools.store import log_file

# Program, or file -> Debian package. What is there is used as it is, whatever installed it.
PACKAGES = {
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
    "cc": "gcc",
    "dnsmasq": "dnsmasq-base",
    "gpgv": "gpgv",
    "ip": "iproute2",
    "mmdebstrap": "mmdebstrap",
    "nft": "nftables",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "slirp4netns": "slirp4netns",
    "sysctl": "procps",
    "systemd-nspawn": "systemd-container",
}

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


StrPath = str | os.PathLike[str]


def which(program: str) -> str | None:
    """Where `program` is; the administrator's directories count although an ordinary PATH leaves them out."""
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:{SEARCH_PATH}")


def _is_there(needed: str) -> bool:
    return Path(needed).exists() if needed.startswith("/") else which(needed) is not None


def ending_with_this_thread(command: Sequence[StrPath]) -> list[StrPath]:
    """The command that starts `command` so that it does not outlive its starter, even one that is killed.

    It is the *thread* that counts: the kernel kills the program when the thread that started it ends.
    """
    return [which("setpriv") or "setpriv", "--pdeathsig", "KILL", "--", *command]


def can_boot() -> str | None:
    """None when this machine can boot a box; else the reason, in words a person can act on."""
    if sys.platform != "linux":
        return f"a box boots on Linux only, this is {sys.platform}"
    if os.geteuid() != 0:
        return "a box boots as root only: run `sudo make rehearse`"
    return None


def require_packages() -> None:
    """Install what is missing (as root on a Debian), or say what to install.

    Raises:
        StepError: naming every missing package at once.
    """
    missing = sorted({package for needed, package in PACKAGES.items() if not _is_there(needed)})
    if not missing:
        return
    title = f"system packages: {' '.join(missing)}"
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *missing]
    if os.geteuid() != 0 or which("apt-get") is None:
        raise StepError(title, "not installed", next_action=f"install them, on Debian: {' '.join(command)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "PATH": SEARCH_PATH}
    with step(title):
        log = log_file("system-packages")
        run_logged("apt-get update", ["apt-get", "update"], log, env=environment)
        run_logged(
            title,
            command,
            log,
            env=environment,
            next_action=f"install them by hand: {' '.join(command)}",
        )
