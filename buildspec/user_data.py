"""The box's user data: a pure function from the box's configuration to ``#cloud-config`` text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from buildspec.box import config as box
from buildspec.box.config import BoxConfig

MAX_BYTES = 16384
"""EC2's limit on user data before base64
(https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-add-user-data.html)."""

REPORTING_MARGIN_SECONDS = 1800
"""How long before the deadline the build is stopped, for its log and status to be stored. The deadline counts
from boot, the build's own limit from the build's start, so the packages' installation has to fit in here as
well."""

_FETCH_CONTEXT = Path(__file__).parent / "box" / "fetch_context.py"

# An upgrade of docker.io or containerd in the middle of a bake ends it.
_UNATTENDED_UNITS = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "apt-daily.service",
    "apt-daily-upgrade.service",
    "unattended-upgrades.service",
)

PACKAGES = ("docker.io", "docker-cli", "docker-buildx", "python3-boto3", "nftables")
"""Debian's packages that a box needs above the cloud image; docker-buildx comes from the newer suite."""

# Nothing but buildx may come from the newer suite. Were its package to need a newer libc one day, -1 makes
# the installation fail with apt's explanation instead of upgrading half the system.
PREFERENCES = """\
Package: *
Pin: release n=forky
Pin-Priority: -1

Package: docker-buildx
Pin: release n=forky
Pin-Priority: 990
"""


class UserDataTooLargeError(ValueError):
    """The user data exceeds what EC2 accepts."""


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as literal blocks: a change of one line shows as one line in a preview."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def render(config: BoxConfig) -> str:
    """Return the user data of a box with this configuration; equal configurations give equal text.

    Raises:
        UserDataTooLargeError: more than 16,384 bytes; the message names the size.
        ValueError: ``max_lifetime_hours`` is below 1.
    """
    if config.max_lifetime_hours < 1:
        raise ValueError(f"maxLifetimeHours: {config.max_lifetime_hours} is not allowed; at least 1 hour")
    body = yaml.dump(_document(config), Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)
    text = "#cloud-config\n" + body
    size = len(text.encode("utf-8"))
    if size > MAX_BYTES:
        raise UserDataTooLargeError(
            f"the user data has {size} bytes, EC2 accepts {MAX_BYTES}; shorten targets or bakeVariables"
        )
    return text


def _document(config: BoxConfig) -> dict[str, Any]:
    return {
        "bootcmd": [_deadline(config.max_lifetime_hours), ["systemctl", "mask", "--now", *_UNATTENDED_UNITS]],
        # $MIRROR is filled in by cloud-init with the mirror that the image uses anyway.
        "apt": {"sources": {"forky.list": {"source": "deb $MIRROR forky main"}}},
        "package_update": True,
        "packages": list(PACKAGES),
        "write_files": [
            _file("/etc/apt/preferences.d/rocm-build-box", PREFERENCES),
            # The credential service's socket and the firewall name this address. Docker reads it at its first
            # start, so it has to be here before the package is installed.
            _file("/etc/docker/daemon.json", f'{{"bip": "{box.BRIDGE_ADDRESS}/16"}}\n'),
            _file(
                "/etc/systemd/system/rocm-build.service.d/lifetime.conf",
                f"[Service]\nRuntimeMaxSec={config.max_lifetime_hours * 3600 - REPORTING_MARGIN_SECONDS}\n",
            ),
            _file(str(box.CONFIG_FILE), config.to_json()),
            _file("/usr/local/sbin/fetch-context", _FETCH_CONTEXT.read_text(encoding="utf-8"), "0755"),
        ],
        "runcmd": [["/usr/local/sbin/fetch-context"]],
    }


def _deadline(hours: int) -> list[str]:
    """Return the command that powers the box off after so many hours, whatever happens later.

    Not ``shutdown -P``: that asks logind over D-Bus, and bootcmd runs before sysinit.target, when neither is
    up. systemd-run without --wait talks to PID 1's private socket, which is there from the start. The default
    dependencies are off because they would make the timer wait for sysinit.target, hence for this very
    command, and would keep the power-off from running in a boot that hangs; --no-block because nothing may
    hold up the boot.
    """
    return [
        "systemd-run",
        "--unit=rocm-build-deadline",
        f"--on-active={hours}h",
        "--timer-property=DefaultDependencies=no",
        "--property=DefaultDependencies=no",
        "--no-block",
        "systemctl",
        "poweroff",
    ]


def _file(path: str, content: str, permissions: str = "0644") -> dict[str, str]:
    return {"path": path, "permissions": permissions, "content": content}
