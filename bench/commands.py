"""What make's own commands cost, against commands that everybody has."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from bench.measure import Benchmark, Command

CHECKOUT = Path(__file__).resolve().parent.parent


def benchmarks(scratch: Path, buildx: Path | None) -> list[Benchmark]:
    """What make costs.

    Args:
        scratch: an empty folder.
        buildx: the plugin to measure against; None looks for `docker buildx`, and leaves out what needs it.
    """
    environment = {name: os.environ[name] for name in ("HOME", "PATH", "XDG_CACHE_HOME") if name in os.environ}
    empty = scratch / "empty.mk"
    empty.write_text("build-pytorch:\n\t@:\n", encoding="utf-8")
    # Make reads the bake file first when it has changed, which is no part of what is measured.
    Command(["make", "-n", "list-vars"], CHECKOUT, environment).seconds()
    found = [
        Benchmark(
            "make -n build-pytorch / an empty makefile's",
            Command(["make", "-n", "build-pytorch"], CHECKOUT, environment),
            Command(["make", "-n", "-f", str(empty), "build-pytorch"], CHECKOUT, environment),
            limit=2.0,
            rounds=200,
        )
    ]
    bake = _bake(buildx)
    if bake is not None:
        # A name that resolves without a network: how long a name server takes is nobody's here.
        local = {**environment, "SCCACHE_WEBDAV_HOST": "127.0.0.1"}
        found.append(
            Benchmark(
                "make list-vars / docker buildx bake --list=type=variables",
                Command(["make", "list-vars"], CHECKOUT, local),
                Command([*bake, "--file=rocm-bake.hcl", "--list=type=variables"], CHECKOUT, environment),
                limit=1.5,
                rounds=40,
            )
        )
    return found


def _bake(buildx: Path | None) -> list[str] | None:
    if buildx is not None:
        return [str(buildx), "bake"]
    docker = shutil.which("docker")
    return None if docker is None else [docker, "buildx", "bake"]
