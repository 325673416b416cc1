"""Runs the benchmarks and prints a table: `python -m bench`. The exit code is 1 when a limit is not kept."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from bench.measure import Benchmark, BenchmarkError, Command, Result, run

CHECKOUT = Path(__file__).resolve().parent.parent


def benchmarks(scratch: Path) -> list[Benchmark]:
    """The benchmarks that this machine can run. `scratch` is an empty folder."""
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
    bake = _bake()
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


def _bake() -> list[str] | None:
    """How to call Bake: docker's plugin, or one that BUILDX names."""
    if "BUILDX" in os.environ:
        return [os.environ["BUILDX"], "bake"]
    docker = shutil.which("docker")
    return None if docker is None else [docker, "buildx", "bake"]


def show(results: list[Result], console: Console) -> None:
    """Print the table."""
    table = Table("Benchmark", "Time", "Reference", "Ratio", "Limit", box=box.SIMPLE_HEAD)
    for result in results:
        table.add_row(
            result.benchmark.name,
            f"{result.measured * 1000:.1f} ms",
            f"{result.reference * 1000:.1f} ms",
            f"{result.ratio:.2f}",
            f"{result.benchmark.limit:.2f}",
            style=None if result.is_within else "red",
        )
    console.print(table)


def main() -> int:
    """Run everything; the exit code is 1 when a limit is not kept or a command fails."""
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        try:
            results = [run(benchmark) for benchmark in benchmarks(Path(scratch))]
        except BenchmarkError as error:
            print(error, file=sys.stderr)
            return 1
    show(results, Console())
    return 0 if all(result.is_within for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
