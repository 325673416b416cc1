"""The whole stack of images, baked in miniature on two boxes, the second with nothing but the compile cache."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from buildspec.box.status import BuildStatus
from rehearsal.miniature import world
from rehearsal.miniature.world import Miniature
from rehearsal.setup import Setup
from tests.boxes import KeptBox, file_on, foundation_up, keep_box

TARGETS = (
    *("rocm", "base", "triton", "pytorch", "torchvision", "aiter", "atom", "cupy-wheel", "cupy", "nixl", "lmcache"),
    *("vllm", "runtime"),
)
"""All of the bake file but `sccache`, which a box of the rehearsal brings, and `cache-probe`."""

COMPILED = ("triton", "pytorch", "torchvision", "aiter", "cupy-wheel", "nixl", "lmcache", "vllm")
"""Those with steps that compile."""

CONFIG_FILE = "/etc/rocm-build-box/box.json"
OVERRIDE = "/opt/rocm-build-box/ami/30-test.hcl"


@dataclass
class Stack:
    """The stack as two boxes have baked it; the second is kept."""

    miniature: Miniature
    kept: KeptBox
    cold: BuildStatus
    warm: BuildStatus

    @contextmanager
    def configured(self, targets: Sequence[str], variables: Mapping[str, str], override: str = "") -> Iterator[None]:
        """Let the kept box bake other targets, with more bake variables and an override of the bake file."""
        machine = self.kept.machine
        whole = self.kept.run("cat", CONFIG_FILE)
        config: dict[str, Any] = json.loads(whole)
        config["targets"] = list(targets)
        config["bakeVariables"].update(variables)
        machine.write(CONFIG_FILE, json.dumps(config))
        try:
            with file_on(self.kept, OVERRIDE, override):
                yield
        finally:
            machine.write(CONFIG_FILE, whole)

    def bake(self, targets: Sequence[str], variables: Mapping[str, str], override: str = "") -> BuildStatus:
        with self.configured(targets, variables, override):
            return self.kept.build()

    def log(self) -> list[str]:
        return self.kept.job.log_of(self.kept.outputs).splitlines()


@pytest.fixture(scope="package")
def stack(setup: Setup, rootfs: Path, checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    directory = tmp_path_factory.mktemp("miniature")
    miniature = world.prepare(directory / "upstreams", checkout / "rocm-bake.hcl", setup.authority)
    settings = {
        "layer": "box",
        "targets": list(TARGETS),
        "bakeVariables": dict(miniature.upstreams.bake_variables()),
    }
    with foundation_up(setup, rootfs, directory, settings, miniature) as job:
        job.box.up()
        job.finish_build()
        cold = job.builds[-1].status
        assert cold["state"] == "succeeded", cold
        kept = keep_box(job, settings)
        yield Stack(miniature, kept, cold, job.builds[-1].status)
