"""The build context: the part of the working tree that the box needs, as one archive named by its content."""

from __future__ import annotations

import gzip
import hashlib
import io
import stat
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from infra import vcs
from infra.errors import RefusedError

PATHS = vcs.BUILD_PATHS
"""What travels to the box, relative to the checkout. A change elsewhere makes no new archive and so no new box."""


class ContextError(RefusedError):
    """The working tree has something that cannot be archived, or lacks something that must be."""


@dataclass(frozen=True)
class BuildContext:
    """An archive on the operator's machine."""

    path: Path
    sha256: str
    """Of the archive's bytes, lower-case hexadecimal."""


def build(checkout: Path) -> BuildContext:
    """Write `.build/context-<sha256>.tar.gz` in `checkout` and return it.

    Equal trees give equal bytes, whoever archives them and when (with the same Python): sorted, without
    times, owners and umask. Otherwise every `pulumi up` would see another archive and replace the box.

    Raises:
        ContextError: one of PATHS is missing, or holds something that is neither a file nor a folder.
        VcsError: `checkout` is not a git checkout.
    """
    names = vcs.files(checkout, PATHS)
    for part in PATHS:
        if not any(name == part or name.startswith(f"{part}/") for name in names):
            raise ContextError(f"{checkout / part}: not there, or ignored by git; the box cannot build without it")
    data = gzip.compress(_archive(checkout, names), mtime=0)
    sha256 = hashlib.sha256(data).hexdigest()
    path = checkout / ".build" / f"context-{sha256}.tar.gz"
    path.parent.mkdir(exist_ok=True)
    # By rename: a second `pulumi` in the same checkout must never upload the half that has been written so
    # far.
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix="context-", delete=False) as partial:
        partial.write(data)
    Path(partial.name).replace(path)
    return BuildContext(path, sha256)


def _archive(checkout: Path, names: tuple[str, ...]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in names:
            file = checkout / name
            mode = file.lstat().st_mode
            if not stat.S_ISREG(mode):
                raise ContextError(
                    f"{file}: only plain files can travel to the box; replace it with a copy of what it points to"
                )
            data = file.read_bytes()
            member = tarfile.TarInfo(name)
            member.size = len(data)
            member.mode = 0o755 if mode & stat.S_IXUSR else 0o644
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()
