"""The box's user data."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from buildspec import user_data
from buildspec.box.config import BoxConfig
from tests.box.support import box_config


def document(config: BoxConfig) -> dict[str, Any]:
    text = user_data.render(config)
    assert text.startswith("#cloud-config\n")
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


def files(config: BoxConfig) -> dict[str, tuple[str, str]]:
    return {entry["path"]: (entry["permissions"], entry["content"]) for entry in document(config)["write_files"]}


def test_has_exactly_these_parts() -> None:
    assert list(document(box_config())) == [
        "bootcmd",
        "apt",
        "package_update",
        "packages",
        "write_files",
        "runcmd",
    ]


def test_deadline_comes_before_everything_else() -> None:
    deadline, mask = document(box_config(max_lifetime_hours=7))["bootcmd"]
    assert deadline == [
        "systemd-run",
        "--unit=rocm-build-deadline",
        "--on-active=7h",
        "--timer-property=DefaultDependencies=no",
        "--property=DefaultDependencies=no",
        "--no-block",
        "systemctl",
        "poweroff",
    ]
    assert mask == [
        "systemctl",
        "mask",
        "--now",
        "apt-daily.timer",
        "apt-daily-upgrade.timer",
        "apt-daily.service",
        "apt-daily-upgrade.service",
        "unattended-upgrades.service",
    ]


def test_only_buildx_comes_from_the_newer_suite_through_the_images_own_mirror() -> None:
    loaded = document(box_config())
    assert loaded["apt"] == {"sources": {"forky.list": {"source": "deb $MIRROR forky main"}}}
    assert loaded["package_update"] is True
    assert loaded["packages"] == ["docker.io", "docker-cli", "docker-buildx", "python3-boto3", "nftables"]
    mode, preferences = files(box_config())["/etc/apt/preferences.d/rocm-build-box"]
    assert mode == "0644"
    assert preferences == (
        "Package: *\nPin: release n=forky\nPin-Priority: -1\n\n"
        "Package: docker-buildx\nPin: release n=forky\nPin-Priority: 990\n"
    )


def test_files_are_what_the_box_reads() -> None:
    config = box_config(bake_variables={"REGISTRY": "r", "EMPTY": "", "LIST": "gfx942;gfx950", "YES": "on"})
    written = files(config)
    assert set(written) == {
        "/etc/apt/preferences.d/rocm-build-box",
        "/etc/docker/daemon.json",
        "/etc/rocm-build-box/box.json",
        "/etc/systemd/system/rocm-build.service.d/lifetime.conf",
        "/usr/local/sbin/fetch-context",
    }
    assert BoxConfig.from_json(written["/etc/rocm-build-box/box.json"][1]) == config
    assert written["/etc/docker/daemon.json"][1] == '{"bip": "172.17.0.1/16"}\n'
    source = Path(user_data.__file__).parent / "box/fetch_context.py"
    assert written["/usr/local/sbin/fetch-context"] == ("0755", source.read_text())
    assert document(config)["runcmd"] == [["/usr/local/sbin/fetch-context"]]


@pytest.mark.parametrize("hours", [1, 12])
def test_build_is_stopped_half_an_hour_before_the_deadline(hours: int) -> None:
    lifetime = files(box_config(max_lifetime_hours=hours))["/etc/systemd/system/rocm-build.service.d/lifetime.conf"]
    assert lifetime[1] == f"[Service]\nRuntimeMaxSec={(hours * 60 - 30) * 60}\n"


def test_a_change_of_one_variable_is_a_change_of_one_line() -> None:
    before = user_data.render(box_config(bake_variables={"REGISTRY": "r", "MAX_JOBS": "4"})).splitlines()
    after = user_data.render(box_config(bake_variables={"REGISTRY": "r", "MAX_JOBS": "8"})).splitlines()
    assert [(old, new) for old, new in zip(before, after, strict=True) if old != new] == [
        ('      "MAX_JOBS": "4",', '      "MAX_JOBS": "8",')
    ]


def test_equal_configurations_give_equal_text() -> None:
    forwards = box_config(bake_variables={"A": "1", "B": "2"})
    assert user_data.render(forwards) == user_data.render(replace(forwards, bake_variables={"B": "2", "A": "1"}))


def test_size_is_checked_in_bytes_and_named() -> None:
    size = len(user_data.render(box_config(bake_variables={"LONG": ""})).encode())
    assert size < user_data.MAX_BYTES * 3 // 4, "the rest is for the operator's variables"
    fits = "x" * (user_data.MAX_BYTES - size)
    assert len(user_data.render(box_config(bake_variables={"LONG": fits})).encode()) == user_data.MAX_BYTES
    with pytest.raises(user_data.UserDataTooLargeError, match=r"has 16385 bytes, EC2 accepts 16384"):
        user_data.render(box_config(bake_variables={"LONG": fits + "x"}))


def test_no_lifetime_is_refused() -> None:
    with pytest.raises(ValueError, match=r"maxLifetimeHours: 0 is not allowed; at least 1"):
        user_data.render(box_config(max_lifetime_hours=0))


def test_fetch_context_stands_alone(tmp_path: Path) -> None:
    content = files(box_config())["/usr/local/sbin/fetch-context"][1]
    script = tmp_path / "fetch-context"
    script.write_text(content)
    script.chmod(0o755)
    # -I: without the checkout on the path; an import of the project's would fail here.
    done = subprocess.run(
        ["python3", "-I", "-c", f"import runpy; runpy.run_path({str(script)!r})"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
