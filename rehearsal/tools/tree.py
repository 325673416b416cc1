"""Debian file systems, as mmdebstrap makes them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from rehearsal.console import run_logged
from rehearsal.tools.system import which

WITHOUT_DOCUMENTATION = (
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-include=/usr/share/doc/*/copyright",
    # Public images ask the mirror for no translations either.
    '--aptopt=Acquire::Languages "none"',
)


def bootstrap(
    suite: str,
    directory: Path,
    packages: Sequence[str],
    log: Path,
    *options: str,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Fill `directory` with a minimal Debian `suite` and `packages`; needs root.

    Args:
        suite: Debian's code name.
        directory: is made.
        packages: what is installed on top of apt and the essential packages, without recommended ones.
        log: where the output goes.
        options: more options of mmdebstrap.
        environment: more variables for its hooks.

    Raises:
        StepError: with the last lines of the log.
    """
    run_logged(
        "mmdebstrap",
        [
            which("mmdebstrap") or "mmdebstrap",
            "--mode=root",
            "--variant=minbase",
            "--quiet",
            # A mirror that lags behind serves lists whose date has passed; they are signed all the same.
            '--aptopt=Acquire::Check-Valid-Until "false"',
            *WITHOUT_DOCUMENTATION,
            *options,
            f"--include={','.join(packages)}",
            suite,
            directory,
        ],
        log,
        env={**os.environ, **(environment or {})},
        next_action="look into the log; a mirror out of reach is the usual reason, then run the same command again",
    )
