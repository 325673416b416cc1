"""Reads BuildKit's plain progress output.

The format is what buildx prints with ``--progress=plain``: ``#<vertex> <text>`` lines, where the text is the
vertex's name, ``CACHED``, ``DONE 1.2s``, ``ERROR: ...`` or an output line with its time in front
(https://github.com/moby/buildkit/blob/v0.34.2/util/progress/progressui/printer.go).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_VERTEX = re.compile(r"^#(?P<id>\d+) (?P<text>.*)$")
_OUTPUT = re.compile(r"^\d+\.\d+ (?P<line>.*)$")
# A layer cache that is not there yet is listed among the failed vertices, and has failed nothing.
_FAILED_VERTEX = re.compile(r"^ > (?!(?:\[[^]]*\] )?importing cache manifest from )(?P<name>.+?):?$")
# buildx names no target when it built only one.
_FAILED_SOLVE = re.compile(r"^(?:ERROR: )?(?:target (?P<target>[^:\s]+): )?failed to solve: (?P<reason>.*)$")


@dataclass
class Vertex:
    """One step of the bake."""

    name: str
    cached: bool = False
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
            if vertex is None or vertex.name != text:
                current[number] = Vertex(text)
                result.append(current[number])
        elif vertex is None:
            continue
        elif text == "CACHED":
            vertex.cached = True
        elif output is not None and output["line"].startswith(keep):
            vertex.output.append(output["line"])
    return result


def failed_step(log: Iterable[str]) -> str | None:
    """Target, step and reason of a failed bake, as far as BuildKit named them; None for other output."""
    step = failed = None
    for line in log:
        if vertex := _FAILED_VERTEX.match(line):
            step = vertex["name"]
        failed = _FAILED_SOLVE.match(line) or failed
    if failed is None:
        return None
    target = failed["target"]
    named = [*([] if target is None else [f"target {target}"]), *([] if step is None else [f"step {step}"])]
    return ": ".join([*named, failed["reason"]])
