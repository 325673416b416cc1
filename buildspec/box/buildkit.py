"""Reads BuildKit's plain progress output.

The format is what buildx prints with ``--progress=plain``: ``#<vertex> <text>`` lines, where the text is the
vertex's name, ``CACHED``, ``CANCELED``, ``DONE 1.2s``, ``ERROR: ...`` or an output line with its time in front
(https://github.com/moby/buildkit/blob/v0.34.2/util/progress/progressui/printer.go).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_VERTEX = re.compile(r"^#(?P<id>\d+) (?P<text>.*)$")
# Of a step that several targets share, buildx names now one and now another of them: [target stage 1/2] RUN ...
_STEP = re.compile(r"^\[(?:\S+ )??(?P<stage>\S+ +\d+/\d+)\] (?P<instruction>.*)$")
_OUTPUT = re.compile(r"^\d+\.\d+ (?P<line>.*)$")
# What a registry's layer cache has is pulled when it is needed; what a later step's makes needless is given up.
_NOT_RUN = re.compile(r"CACHED$|CANCELED$|(?:extracting )?sha256:")
# Several targets: [target] in front.
_CACHE_EXPORT = re.compile(r"(?:\[\S+\] )?exporting cache to \S+")
# A layer cache that is not there yet, or cannot be written, is listed like a failed vertex, and has failed nothing.
_FAILED_VERTEX = re.compile(
    r"^ > (?!(?:\[[^]]*\] )?(?:importing cache manifest from|exporting cache to) )(?P<name>.+?):?$"
)
_ERROR = re.compile(r"^ERROR: (?:target (?P<target>[^:\s]+): )?(?:failed to solve: )?(?P<reason>.*)$")
# The ways in which gRPC says that the other side has ended; which one it is depends on what was under way.
_LOST = re.compile(r"failed to receive status: |(?:rpc error: code = )?Unavailable\b")
_FAILED_BAKE = re.compile(r"^bake of (?P<targets>.+) failed$")


@dataclass
class Vertex:
    """One step of the bake."""

    name: str
    ran: bool = True
    """False: its result came from a layer cache, or nothing needed it."""
    output: list[str] = field(default_factory=list)
    """The lines that were asked to be kept, without BuildKit's prefixes."""


def vertices(log: Iterable[str], keep: str) -> list[Vertex]:
    """Return the steps of the bakes in a log, with those of their output lines that start with ``keep``.

    The log may hold several bakes: a vertex number that comes again with another name is another step.
    """
    current: dict[str, Vertex] = {}
    result: list[Vertex] = []
    for line in log:
        match = _VERTEX.match(line)
        if match is None:
            continue
        number, text = match["id"], match["text"]
        vertex = current.get(number)
        output = _OUTPUT.match(text)
        if text.startswith("["):
            if vertex is None or not _is_same_step(vertex.name, text):
                current[number] = Vertex(text)
                result.append(current[number])
        elif vertex is None:
            continue
        elif _NOT_RUN.match(text):
            vertex.ran = False
        elif output is not None and output["line"].startswith(keep):
            vertex.output.append(output["line"])
    return result


def _is_same_step(name: str, other: str) -> bool:
    one, two = _STEP.match(name), _STEP.match(other)
    return name == other or (one is not None and two is not None and one.groups() == two.groups())


def failed_cache_exports(log: Iterable[str]) -> list[str]:
    """Return each layer cache export that failed, with its reason.

    The bake succeeds nevertheless when the export has ``ignore-error=true``
    (https://github.com/moby/buildkit/blob/v0.34.2/README.md#export-cache).
    """
    exports: dict[str, str] = {}
    failed: list[str] = []
    for line in log:
        match = _VERTEX.match(line)
        if match is None:
            continue
        number, text = match["id"], match["text"]
        if _CACHE_EXPORT.fullmatch(text):
            exports[number] = text
        elif text.startswith("ERROR: ") and number in exports:
            failed.append(f"{exports[number]}: {text.removeprefix('ERROR: ')}")
    return failed


def failed_bake(targets: Iterable[str]) -> str:
    """Return the line that ends the log of a failed bake, for :func:`failed_step`.

    buildx names a target in its error and in its steps only when it builds several.
    """
    return f"bake of {' '.join(targets)} failed"


def failed_step(log: Iterable[str]) -> str | None:
    """Target, step and reason of a failed bake, as far as they are named; None for other output.

    buildx prints the step with its last lines, then the error, which begins with the target when there are
    several (https://github.com/docker/buildx/blob/v0.29.1/build/build.go, ``target %s``, and
    https://github.com/docker/buildx/blob/v0.29.1/cmd/buildx/main.go, ``ERROR: %v``).
    """
    step = target = targets = reason = None
    for line in log:
        if vertex := _FAILED_VERTEX.match(line):
            step = vertex["name"]
        elif error := _ERROR.match(line):
            target, reason = error["target"], error["reason"]
        elif bake := _FAILED_BAKE.match(line):
            targets = bake["targets"]
    if reason is None:
        return None
    if _LOST.match(reason):
        reason = f"BuildKit ended in the middle, see `journalctl --unit docker.service`: {reason}"
    named = [f"target {target or targets}"] if target or targets else []
    return ": ".join([*named, *([] if step is None else [f"step {step}"]), reason])
