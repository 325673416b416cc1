"""A control group with little memory, in which the kernel's out-of-memory killer is provoked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY_BYTES = 64 << 20


@contextmanager
def small_group(name: str) -> Iterator[Path]:
    """The file to write a process's id to, which then has MEMORY_BYTES, together with others of the group.

    Raises:
        OSError: no group can be made here.
    """
    root, limit = Path("/sys/fs/cgroup"), "memory.max"
    if (root / "memory").is_dir():
        root, limit = root / "memory", "memory.limit_in_bytes"
    group = root / name
    group.mkdir()
    try:
        (group / limit).write_text(str(MEMORY_BYTES))
        yield group / "cgroup.procs"
    finally:
        group.rmdir()
