"""The tools of the tests: the rehearsal's own, prepared once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest

from rehearsal.setup import Setup, prepare
from rehearsal.tools import engine, images


def cannot_run(reason: str) -> NoReturn:
    """Skip a test that this machine has not what it takes for; CI has to have it."""
    if os.environ.get("CI"):
        pytest.fail(f"CI has to run this: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The folder of rocm-bake.hcl."""
    return Path(__file__).parents[1]


@pytest.fixture(scope="session")
def setup(request: pytest.FixtureRequest) -> Setup:
    """Every tool of the rehearsal. The first time this takes as long as building them, which is shown."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        return prepare()


@pytest.fixture(scope="session")
def rootfs(setup: Setup) -> Path:
    """The root file system of boxes."""
    if setup.rootfs is None:
        cannot_run(f"needs a booted box: {setup.cannot_boot}")
    return setup.rootfs


@pytest.fixture(scope="session")
def buildx(rootfs: Path) -> str:
    """Path of docker's buildx plugin, the box's own."""
    return str(images.buildx(rootfs))


@pytest.fixture(scope="session")
def sccache() -> str:
    """Path of sccache."""
    return str(engine.sccache())
