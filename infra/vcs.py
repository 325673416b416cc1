"""Which commit is being built, asked on the operator's machine: the box gets an archive without a git history."""

from __future__ import annotations

import os.path
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from infra.errors import RefusedError

BUILD_PATHS = ("rocm-bake.hcl", "buildspec", "docker")
"""What a build is made from, relative to the checkout; nothing else of it can reach an image."""


class VcsError(RefusedError):
    """git could not answer; the message has what it said."""


@dataclass(frozen=True)
class Revision:
    """The commit that the images are labelled with."""

    ref: str
    """Full commit hash, with `-dirty` when the build context differs from it."""
    date: str
    """The commit's own time in UTC, RFC 3339: the same commit gives the same value on every machine."""


def revision(checkout: Path, paths: Sequence[str]) -> Revision:
    """Return the commit of `checkout`; only changes under `paths` make it dirty, because only they reach an image.

    Raises:
        VcsError: `checkout` is not a git checkout with a commit, its repository has none of `paths`, or there is no
            git.
    """
    commit, seconds = _git(checkout, "show", "--no-patch", "--format=%H %ct", "HEAD").split()
    if not _git(checkout, "ls-files", "--", *paths):
        raise VcsError(
            f"{checkout}: the repository that it is in tracks none of {', '.join(paths)}: it is another one's.\n"
            "The commit labels the images, so the program runs from a git checkout of its own files."
        )
    dirty = _git(checkout, "status", "--porcelain", "--untracked-files=all", "--", *paths)
    date = datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Revision(ref=f"{commit}-dirty" if dirty else commit, date=date)


def files(checkout: Path, paths: Sequence[str]) -> tuple[str, ...]:
    """Return, sorted, the existing files under `paths` that git tracks or would offer to add, relative to `checkout`.

    What `.gitignore` names is left out: caches of tools would change the archive's hash, and a `.env` must
    not travel.

    Raises:
        VcsError: `checkout` is not a git checkout, or there is no git.
    """
    listing = _git(
        checkout,
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "--deduplicate",
        "--",
        *paths,
    )
    return tuple(sorted(name for name in listing.split("\0") if name and os.path.lexists(checkout / name)))


def _git(checkout: Path, *arguments: str) -> str:
    command = ["git", "-C", str(checkout), *arguments]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError as error:
        raise VcsError(
            "git: not found on PATH; it names the commit that the images are labelled with. Install git"
        ) from error
    except subprocess.CalledProcessError as error:
        raise VcsError(
            f"{checkout}: git {arguments[0]} failed: {error.stderr.strip()}\n"
            "The commit labels the images, so the program runs from a git checkout with at least one commit."
        ) from error
