"""The bake: ``python3 -m buildspec.box.bake``. Prints the command and becomes it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from buildspec.box import config as box
from buildspec.box.config import BoxConfig


def bake_files(context: Path) -> list[str]:
    """``-f`` options, relative to ``context``, for the project's bake file and those of the AMI, sorted."""
    files = ["rocm-bake.hcl", *sorted(str(path.relative_to(context)) for path in context.glob("ami/*.hcl"))]
    return [option for name in files for option in ("-f", name)]


def command(context: Path, targets: Sequence[str]) -> list[str]:
    """Return the bake's command line. The builder is the one that BUILDX_BUILDER names."""
    return [
        *("docker", "buildx", "bake", *bake_files(context)),
        *("--progress=plain", "--push", f"--metadata-file={box.METADATA_FILE}"),
        f"--set=*.secrets=id=aws,src={box.SECRET_FILE}",
        *targets,
    ]


def main() -> NoReturn:
    """Run the bake of this box's targets in the current directory."""
    argv = command(Path.cwd(), BoxConfig.load(box.CONFIG_FILE).targets)
    print(shlex.join(argv), flush=True)
    os.execvp(argv[0], argv)  # noqa: S606  # a list of arguments, no shell


if __name__ == "__main__":
    main()
