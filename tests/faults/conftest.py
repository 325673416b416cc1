"""One box that stays, and what goes wrong on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.setup import Setup
from tests.boxes import BOX, UNIT, Job, KeptBox, foundation_up, until
from tests.builds import is_in


@pytest.fixture(scope="package")
def job(setup: Setup, rootfs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    with foundation_up(setup, rootfs, tmp_path_factory.mktemp("faults"), {**BOX, "keepBox": True}) as job:
        yield job


@pytest.fixture(scope="package")
def kept(job: Job) -> KeptBox:
    """Its first build is stopped when it bakes: each case has one of its own, which is shorter."""
    job.box.up()
    kept = KeptBox(job, *job.running_box())
    until("the bake", lambda: is_in(kept, "build"))
    kept.run("systemctl", "stop", UNIT)
    kept.wait_for_end()
    return kept
