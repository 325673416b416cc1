"""One run of the main job on booted boxes, which the tests of this package judge: two builds that end themselves, and a
third box that is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal.setup import Setup
from tests.boxes import Job, KeptBox, foundation_up, keep_box


@pytest.fixture(scope="package")
def job(setup: Setup, rootfs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    with foundation_up(setup, rootfs, tmp_path_factory.mktemp("booted")) as job:
        job.no_changes["foundation"] = job.foundation.attempt("up", "--yes", "--skip-preview", "--expect-no-changes")
        job.box.up()
        _, machine = job.running_box()
        written = machine.execute(["logger", f"planted: {job.planted}"])
        assert written.returncode == 0, written.stderr
        machine.write("/var/tmp/planted", job.planted)
        job.no_changes["box"] = job.box.attempt("up", "--yes", "--skip-preview", "--expect-no-changes")
        job.finish_build()
        job.second_up = job.box.attempt("up", "--yes", "--skip-preview")
        job.finish_build()
        yield job


@pytest.fixture(scope="package")
def kept(job: Job) -> KeptBox:
    return keep_box(job)
