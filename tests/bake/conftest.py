"""Bake, and what its file declares."""

from __future__ import annotations

from pathlib import Path

import pytest

from buildspec import bakefile
from tests.bake.support import Bake


@pytest.fixture(scope="session")
def declared(checkout: Path) -> bakefile.BakeFile:
    return bakefile.load(checkout / "rocm-bake.hcl")


@pytest.fixture(scope="session")
def bake(buildx: str, checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Bake:
    return Bake(buildx, checkout, tmp_path_factory.mktemp("home"))
