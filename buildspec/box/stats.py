"""The compile cache's statistics, from the lines that the compile steps print into the bake's log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from buildspec.box import buildkit
from buildspec.box.status import CacheStatus

PREFIX = "rocm-build-stats: "

TOLERATED_LOSSES = 0.01
"""Of the compile requests. S3 answers a few with an error and expects to be asked again
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/ErrorBestPractices.html), which sccache does not do: one in a
thousand costs an entry that the next build compiles again, and must not cost hours of this one.
"""

COMPILE_STEP_MARK = "type=secret,id=aws"
"""A step that mounts the cache's credentials compiles; no other step mounts them."""


class StatsError(ValueError):
    """A statistics line that does not hold what sccache 0.19 prints."""


@dataclass(frozen=True)
class BakeStats:
    """What a bake's log says about the compile cache."""

    cache: CacheStatus
    writes: int
    """Objects that sccache stored."""
    silent_steps: tuple[str, ...]
    """Compile steps that ran, rather than came from the layer cache, and gave no statistics of sccache's."""


def read(log: Iterable[str]) -> BakeStats:
    """Sum the statistics of every compile step in a bake's plain log.

    The fields are those of ``sccache --show-stats --stats-format=json`` (ServerStats in src/server.rs of
    sccache 0.19.0). ``errors`` counts failures to handle a request or to read an entry, and time-outs of the
    cache.

    Raises:
        StatsError: a line with :data:`PREFIX` that is not the JSON expected.
    """
    cache = CacheStatus(requests=0, hits=0, misses=0, errors=0, writeErrors=0, compileSeconds=0.0, steps=[])
    writes = 0
    silent = []
    for vertex in buildkit.vertices(log, keep=PREFIX):
        if not vertex.output and COMPILE_STEP_MARK in vertex.name and vertex.ran:
            silent.append(vertex.name)
        for line in vertex.output:
            document = _parse(line)
            if document["sccache"] is None:
                silent.append(document["step"])
                continue
            step, step_writes = _step(document)
            writes += step_writes
            cache["steps"].append(step)
            cache["requests"] += step["requests"]
            cache["hits"] += step["hits"]
            cache["misses"] += step["misses"]
            cache["errors"] += step["errors"]
            cache["writeErrors"] += step["writeErrors"]
            cache["compileSeconds"] += step["seconds"]
    cache["compileSeconds"] = round(cache["compileSeconds"], 3)
    return BakeStats(cache, writes, tuple(silent))


def broken_promises(stats: BakeStats) -> list[str]:
    """Return what shows that a cache was asked for and not used; empty when it was written and read."""
    cache = stats.cache
    found = [f"compile step without statistics: {step}" for step in stats.silent_steps]
    if not _is_tolerated(cache):
        found += _losses(cache)
    if cache["misses"] and not stats.writes:
        # sccache whose first PUT is refused goes on read-only, without a word and without counting an error.
        found.append(f"{cache['misses']} misses, and nothing was written: sccache found the cache read-only")
    return found


def tolerated_losses(stats: BakeStats) -> list[str]:
    """Return what the cache has lost, when that is so little that it fails no build (:data:`TOLERATED_LOSSES`)."""
    return _losses(stats.cache) if _is_tolerated(stats.cache) else []


def _is_tolerated(cache: CacheStatus) -> bool:
    return cache["writeErrors"] + cache["errors"] <= TOLERATED_LOSSES * cache["requests"]


def _losses(cache: CacheStatus) -> list[str]:
    found = []
    if cache["misses"] and cache["writeErrors"]:
        found.append(f"{cache['writeErrors']} results could not be written to the cache")
    if cache["misses"] and cache["errors"]:
        found.append(f"{cache['errors']} errors while reading the cache or handling a request")
    return found


def _parse(line: str) -> Any:
    try:
        document = json.loads(line.removeprefix(PREFIX))
        document["step"], document["seconds"], document["sccache"]
    except (KeyError, TypeError, ValueError) as error:
        raise StatsError(f"not the statistics of a compile step ({_describe(error)}): {line}") from error
    return document


def _step(document: Any) -> tuple[dict[str, Any], int]:
    try:
        stats = document["sccache"]["stats"]
        errors = _all_languages(stats["cache_errors"]) + stats["cache_read_errors"] + stats["cache_timeouts"]
        step = {
            "step": document["step"],
            "seconds": float(document["seconds"]),
            "requests": int(stats["compile_requests"]),
            "hits": _all_languages(stats["cache_hits"]),
            "misses": _all_languages(stats["cache_misses"]),
            "errors": errors,
            "writeErrors": int(stats["cache_write_errors"]),
        }
        return step, int(stats["cache_writes"])
    except (KeyError, TypeError, ValueError) as error:
        raise StatsError(f"step {document['step']}: not the statistics of sccache 0.19 ({_describe(error)})") from error


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _all_languages(count: Mapping[str, Mapping[str, int]]) -> int:
    return sum(count["counts"].values())
