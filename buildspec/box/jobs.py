"""How many compile jobs a machine has the memory for, on the box and for make.

docker/with-sccache.sh has the same rule in shell, without the rounding: what it derives is in no layer cache's key.
"""

from __future__ import annotations

import os
from pathlib import Path

BYTES_PER_JOB = 4 * 1024**3
"""Memory that one compile job may need; enough for PyTorch, whose largest files need about that."""

MEMINFO = Path("/proc/meminfo")
"""https://docs.kernel.org/filesystems/proc.html#meminfo; Linux alone has it."""


def max_jobs(cpus: int, meminfo: str) -> int:
    """Compile jobs that a machine's processors and available memory allow; at least 1. `meminfo` is MEMINFO's text.

    Of more than eight, memory allows fours: MAX_JOBS is in the layer cache's key of each compile step, and a boot with
    some MiB less must not make them all run again.
    """
    available = next(line for line in meminfo.splitlines() if line.startswith("MemAvailable:"))
    fitting = int(available.split()[1]) * 1024 // BYTES_PER_JOB
    if fitting > 8:
        fitting -= fitting % 4
    return max(1, min(cpus, fitting))


def max_jobs_here() -> int:
    """Compile jobs that this machine allows.

    :raises OSError: there is no MEMINFO, as anywhere but on Linux
    """
    return max_jobs(len(os.sched_getaffinity(0)), MEMINFO.read_text(encoding="utf-8"))
