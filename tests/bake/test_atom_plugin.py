"""docker/atom-plugin.py in an environment that seems to have ATOM and vLLM."""

from __future__ import annotations

import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest


@pytest.fixture
def site_packages(tmp_path: Path) -> Path:
    venv.create(tmp_path / "environment")
    found = next((tmp_path / "environment/lib").glob("python*/site-packages"))
    # packaging is where these tests have theirs.
    (found / "these-tests.pth").write_text(sysconfig.get_path("purelib"))
    return found


def install(site_packages: Path, name: str, version: str, files: dict[str, str]) -> None:
    information = site_packages / f"{name}-{version}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for path, text in files.items():
        (site_packages / path).parent.mkdir(parents=True, exist_ok=True)
        (site_packages / path).write_text(text)
    (information / "RECORD").write_text("".join(f"{path},,\n" for path in files))


def run(site_packages: Path, *command: str | Path, **variables: str) -> str:
    python = site_packages.parents[2] / "bin/python"
    done = subprocess.run(
        [python, *command], check=True, env={"PATH": "/usr/bin:/bin", **variables}, capture_output=True, text=True
    )
    assert done.stderr == ""
    return done.stdout


def switch(site_packages: Path, **variables: str) -> str:
    """What a Python of that environment sees."""
    return run(site_packages, "-c", "import os; print(os.environ.get('ATOM_DISABLE_VLLM_PLUGIN'))", **variables).strip()


def test_a_plugin_that_fits_is_left_on(checkout: Path, site_packages: Path) -> None:
    install(
        site_packages, "atom", "0.1.9", {"atom/plugin/vllm/vllm-version.env": "VLLM_COMMIT=1\nVLLM_VERSION=0.33.0\n"}
    )
    install(site_packages, "vllm", "0.33.0+rocm1010", {})
    assert run(site_packages, checkout / "docker/atom-plugin.py") == (
        "atom-plugin: the plugin of ATOM 0.1.9 is made for vLLM 0.33.0, the one that is installed\n"
    )
    assert switch(site_packages) == "None"


def test_a_plugin_for_another_vllm_is_named_and_off(checkout: Path, site_packages: Path) -> None:
    install(site_packages, "atom", "0.1.9", {"atom/plugin/vllm/vllm-version.env": "VLLM_VERSION=0.31.0\n"})
    install(site_packages, "vllm", "0.33.0+rocm1010", {})
    assert run(site_packages, checkout / "docker/atom-plugin.py") == (
        "atom-plugin: WARNING: the plugin of ATOM 0.1.9 is made for vLLM 0.31.0, and vLLM 0.33.0 is installed: it is "
        "off in this image, as with ATOM_DISABLE_VLLM_PLUGIN=1. To have it on, set VLLM_REF to v0.31.0, or ATOM_REF, "
        "with ATOM_REPO for a fork, to an ATOM made for vLLM 0.33.0; "
        "ATOM_DISABLE_VLLM_PLUGIN=0 at run time loads it all the same\n"
    )
    assert switch(site_packages) == "1"
    assert switch(site_packages, ATOM_DISABLE_VLLM_PLUGIN="0") == "0"


def test_a_plugin_that_does_not_say_is_named_and_off(checkout: Path, site_packages: Path) -> None:
    install(site_packages, "atom", "0.2.0", {"atom/__init__.py": ""})
    install(site_packages, "vllm", "0.33.0", {})
    assert run(site_packages, checkout / "docker/atom-plugin.py") == (
        "atom-plugin: WARNING: the plugin of ATOM 0.2.0 does not say in atom/plugin/vllm/vllm-version.env which vLLM "
        "it is made for, and vLLM 0.33.0 is installed: it is off in this image, as with ATOM_DISABLE_VLLM_PLUGIN=1. "
        "To have it on, set ATOM_REF, with ATOM_REPO for a fork, to an ATOM made for vLLM 0.33.0; "
        "ATOM_DISABLE_VLLM_PLUGIN=0 at run time loads it all the same\n"
    )
    assert switch(site_packages) == "1"
