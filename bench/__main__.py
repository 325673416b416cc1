"""Runs the benchmarks and prints a table: `python -m bench`. The exit code is 1 when a limit is not kept."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from rich import box
from rich.table import Table

from bench import boxes, commands
from bench.measure import BenchmarkError, Result, run
from rehearsal.console import StepError, console
from rehearsal.setup import prepare
from rehearsal.tools import images


def show(results: list[Result]) -> None:
    """Print the table."""
    table = Table("Benchmark", "Time", "Reference", "Ratio", "Limit", box=box.SIMPLE_HEAD)
    for result in results:
        table.add_row(
            result.name,
            f"{result.measured:.3f} s",
            f"{result.reference:.3f} s",
            f"{result.ratio:.3f}",
            f"{result.limit:.2f}",
            style=None if result.is_within else "red",
        )
    console.print(table)


def main() -> int:
    """Run everything; the exit code is 1 when a limit is not kept or a command fails."""
    results: list[Result] = []
    failed = False
    try:
        setup = prepare()
        with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
            folder = Path(scratch)
            buildx = images.buildx(setup.rootfs) if setup.rootfs else None
            results += [run(benchmark) for benchmark in commands.benchmarks(folder, buildx)]
            if setup.rootfs is None:
                console.print(f"left out: what needs a booted box, because {setup.cannot_boot}", markup=False)
            else:
                for result in boxes.measure(setup, setup.rootfs, folder):
                    console.print(f"{result.name}: {result.ratio:.3f}", markup=False)
                    results.append(result)
    except BenchmarkError as error:
        console.print(str(error), markup=False)
        failed = True
    except StepError as error:
        error.show()
        failed = True
    show(results)
    return 0 if not failed and all(result.is_within for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
