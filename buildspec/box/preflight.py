"""Checks that Docker answers and that buildx is new enough: ``python3 -m buildspec.box.preflight``."""

from __future__ import annotations

import re
import subprocess
import sys

MIN_BUILDX = (0, 24)
"""The oldest that the bake file is tried with; what it needs most is ``validation``, since 0.19."""


class PreflightError(RuntimeError):
    """A tool is missing or too old."""


def check_buildx(output: str) -> str:
    """Return the version in what ``docker buildx version`` prints.

    Raises:
        PreflightError: no version in it, or one below :data:`MIN_BUILDX`.
    """
    wanted = ".".join(map(str, MIN_BUILDX))
    match = re.search(r"\bv?(\d+)\.(\d+)\.\d+\S*", output)
    if match is None:
        raise PreflightError(f"docker buildx version says {output.strip()!r}; buildx {wanted} or newer is needed")
    if (int(match[1]), int(match[2])) < MIN_BUILDX:
        raise PreflightError(
            f"buildx {match[0]} is too old, {wanted} or newer is needed; was docker-buildx installed "
            "from forky? See apt-cache policy docker-buildx"
        )
    return match[0]


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    except FileNotFoundError as error:
        raise PreflightError(f"{command[0]} is not installed") from error
    if done.returncode != 0:
        raise PreflightError(f"{' '.join(command)}: exit code {done.returncode}: {done.stdout.strip()}")
    return done.stdout.strip()


def main() -> int:
    """Print the versions that this build uses."""
    try:
        print("docker", _output(["docker", "version", "--format", "{{.Server.Version}}"]))
        print("buildx", check_buildx(_output(["docker", "buildx", "version"])))
    except PreflightError as error:
        print(f"preflight: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
