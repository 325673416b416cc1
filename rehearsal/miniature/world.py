"""Everything that a box needs to bake the real Dockerfiles in miniature."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from buildspec import bakefile
from rehearsal.miniature import images
from rehearsal.miniature.upstreams import Upstreams


@dataclass(frozen=True)
class Miniature:
    """The miniature images, as a layer of a box's file system, and the upstreams as repositories."""

    machine_layer: Path
    upstreams: Upstreams


def prepare(directory: Path, bake_file: Path, authority: Path) -> Miniature:
    """Make or find the images, and make the repositories in `directory`, with the tags that `bake_file` asks for.

    Raises:
        StepError: naming what could not be made.
    """
    return Miniature(images.machine_layer(authority), Upstreams(directory, bakefile.load(bake_file)))
