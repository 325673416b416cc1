"""Everything that a rehearsal needs before it starts: found, downloaded or built once, and kept."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from rehearsal.cloud.tls import Authority
from rehearsal.console import StepError
from rehearsal.miniature.images import machine_layer
from rehearsal.tools import engine, images
from rehearsal.tools.system import SEARCH_PATH, can_boot, require_packages


@dataclass(frozen=True)
class Setup:
    """Where the tools are."""

    engine: Path
    """The directory with `pulumi`."""
    rootfs: Path | None
    """What boxes boot from; None where none can boot."""
    cannot_boot: str | None
    """Why none can boot; None where one can."""
    authority: Path
    """The certificate of the rehearsal's authority, which boxes and base images trust."""


def prepare() -> Setup:
    """Find or make all tools.

    Raises:
        StepError: naming the tool, the last lines of its log and what to do.
    """
    # Programs are started by their names. An ordinary PATH leaves out the administrator's directories, an empty
    # environment has none at all.
    _append_to_path(SEARCH_PATH)
    reason = can_boot()
    if reason is None:
        require_packages()
        _append_to_path(str(images.registry().parent))
    authority = Authority(images.authority_directory()).make()
    return Setup(
        engine=engine.pulumi_directory(),
        rootfs=images.box_rootfs(authority.certificate) if reason is None else None,
        cannot_boot=reason,
        authority=authority.certificate,
    )


def _append_to_path(directories: str) -> None:
    os.environ["PATH"] = os.pathsep.join([*filter(None, [os.environ.get("PATH")]), directories])


def main() -> int:
    """Prepare what rehearsals and tests of any target need, showing the progress; return the exit status."""
    try:
        setup = prepare()
        if setup.rootfs is not None:
            machine_layer(setup.authority)
    except StepError as failure:
        failure.show()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
