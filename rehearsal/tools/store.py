"""The cache of built tools: outside the checkout, keyed by version, each entry built once.

An entry is a directory that appears by rename when it is complete, so an interrupted build is never taken for a
finished one: the next run starts that entry again and keeps the others.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pwd
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rehearsal.console import step


def home() -> Path:
    """The user's home directory, also where the environment is empty and HOME is not set."""
    return Path(os.environ.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir)


def cache_directory() -> Path:
    """`$XDG_CACHE_HOME/rocm-build-box`, by default `~/.cache/rocm-build-box` (XDG Base Directory Specification)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or home() / ".cache") / "rocm-build-box"


def log_file(name: str) -> Path:
    """Where the output of building `name` is kept."""
    return cache_directory() / "logs" / f"{name}.log"


def recipe_key(*parts: object) -> str:
    """A short key of everything an entry is made from, so that another recipe is another entry."""
    return hashlib.sha256("\0".join(str(part) for part in parts).encode()).hexdigest()[:12]


@contextmanager
def _locked(name: str) -> Iterator[None]:
    locks = cache_directory() / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    with (locks / name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def entry(name: str, key: str, build: Callable[[Path], None], *, expect: str) -> Path:
    """The directory of tool `name` at `key`, built by `build` when it is not there yet.

    Args:
        name: the tool, as a person calls it.
        key: its version or `recipe_key`.
        build: fills the empty directory that it is given; whatever it raises leaves no entry behind.
        expect: what to tell a person who waits, such as "4 to 9 minutes".
    """
    final = cache_directory() / f"{name}-{key}"
    if final.is_dir():
        return final
    with _locked(f"{name}-{key}"):
        if final.is_dir():
            return final
        partial = final.with_name(f"{final.name}.partial")
        remove_tree(partial)
        partial.mkdir(parents=True)
        with step(f"{name} {key}: building once, kept in {final} ({expect})"):
            build(partial)
        partial.rename(final)
    return final


def remove_tree(path: Path) -> None:
    """Remove `path` and all below it; a path that does not exist is fine."""
    if path.exists():
        shutil.rmtree(path)
