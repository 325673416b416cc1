"""One box that stays, and what goes wrong on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.setup import Setup
from tests.booted.conftest import Job, KeptBox, foundation_up, keep_box


@pytest.fixture(scope="package")
def job(setup: Setup, rootfs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    with foundation_up(setup, rootfs, tmp_path_factory.mktemp("faults")) as job:
        yield job


@pytest.fixture(scope="package")
def kept(job: Job) -> KeptBox:
    return keep_box(job)
