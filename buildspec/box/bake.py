"""The bake: ``python3 -m buildspec.box.bake``. Prints the command and runs it."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from buildspec.box import buildkit
from buildspec.box import config as box
from buildspec.box.config import BoxConfig
from buildspec.box.status import SIGNAL_EXIT_CODES


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


def plan_command(context: Path, targets: Sequence[str]) -> list[str]:
    """Return the command that prints, as JSON, what :func:`command` would bake.

    Without the secret, whose source is not there before and after the build.
    """
    return [*("docker", "buildx", "bake", *bake_files(context), "--push", "--print"), *targets]


def main() -> int:
    """Run the bake of this box's targets in the current directory; the exit code is the bake's."""
    targets = BoxConfig.load(box.CONFIG_FILE).targets
    argv = command(Path.cwd(), targets)
    print(shlex.join(argv), flush=True)
    exit_code = subprocess.run(argv, check=False).returncode
    if exit_code != 0:
        print(buildkit.failed_bake(targets))
    return exit_code if exit_code >= 0 else SIGNAL_EXIT_CODES - exit_code


if __name__ == "__main__":
    sys.exit(main())
