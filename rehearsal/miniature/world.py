"""Everything that a box needs to bake the real Dockerfiles in miniature."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from buildspec import bakefile
from rehearsal.miniature import images
from rehearsal.miniature.upstreams import Upstreams
from rehearsal.tools.images import AMI

_OVERRIDE = Path(__file__).parent / "miniature.hcl"


@dataclass(frozen=True)
class Miniature:
    """What a box's file system gets on top, and the upstreams as repositories."""

    layers: tuple[Path, ...]
    upstreams: Upstreams


def prepare(directory: Path, bake_file: Path, authority: Path) -> Miniature:
    """Make or find the images, and make the repositories, with the tags that `bake_file` asks for.

    Args:
        directory: an empty folder for the repositories.
        bake_file: the project's.
        authority: the certificate that the images are to trust.

    Raises:
        StepError: naming what could not be made.
    """
    upstreams = Upstreams(directory / "git", bakefile.load(bake_file))
    override = directory / "layer"
    (override / AMI).mkdir(parents=True)
    shutil.copy(_OVERRIDE, override / AMI / "20-miniature.hcl")
    return Miniature((override, images.machine_layer(authority)), upstreams)
