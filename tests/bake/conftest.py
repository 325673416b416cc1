"""The tools that the bake tests run, found as the rest of the tests find theirs: by an environment variable, else on PATH."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest


def _tool(variable: str, command: str) -> str:
    found = os.environ.get(variable) or shutil.which(command)
    if found is None:
        pytest.skip(f"no {command} on PATH; {variable}=<path of the program> names one elsewhere")
    return found


@pytest.fixture(scope="session")
def buildx() -> str:
    """Path of docker's buildx plugin."""
    return _tool("BUILDX", "docker-buildx")


@pytest.fixture(scope="session")
def sccache() -> str:
    """Path of sccache."""
    return _tool("SCCACHE", "sccache")


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The folder of rocm-bake.hcl."""
    return Path(__file__).parents[2]
