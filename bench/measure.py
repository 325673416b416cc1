"""A benchmark is two commands, and how many times longer the first may take than the second."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


class BenchmarkError(Exception):
    """A command of a benchmark failed, so its time means nothing."""


@dataclass(frozen=True)
class Command:
    """A command line, where it runs, and what it needs in its environment."""

    arguments: Sequence[str]
    directory: Path
    environment: Mapping[str, str]

    def seconds(self) -> float:
        """Wall time of one run.

        :raises BenchmarkError: the command fails
        """
        begun = time.perf_counter()
        done = subprocess.run(
            self.arguments, cwd=self.directory, env=self.environment, capture_output=True, text=True, check=False
        )
        elapsed = time.perf_counter() - begun
        if done.returncode != 0:
            raise BenchmarkError(f"{' '.join(self.arguments)} ended with {done.returncode}: {done.stderr.strip()}")
        return elapsed


@dataclass(frozen=True)
class Benchmark:
    """`limit` is the highest allowed ratio of the two commands' times."""

    name: str
    measured: Command
    reference: Command
    limit: float
    rounds: int = 25


@dataclass(frozen=True)
class Result:
    """Two times in seconds that were measured in one run, and the highest ratio of them that is allowed."""

    name: str
    measured: float
    reference: float
    limit: float

    @property
    def ratio(self) -> float:
        """How many times longer the measured one takes."""
        return self.measured / self.reference

    @property
    def is_within(self) -> bool:
        """Whether the limit is kept."""
        return self.ratio <= self.limit


def run(benchmark: Benchmark) -> Result:
    """Run both commands in turn, so that whatever else the machine does meets both alike. The first round is dropped.

    :raises BenchmarkError: a command fails
    """
    rounds = [(benchmark.measured.seconds(), benchmark.reference.seconds()) for _ in range(benchmark.rounds + 1)][1:]
    measured, reference = (statistics.median(times) for times in zip(*rounds, strict=True))
    return Result(benchmark.name, measured, reference, benchmark.limit)
