"""Checks that Docker answers and that buildx is new enough: ``python3 -m buildspec.box.preflight``."""

from __future__ import annotations

import re
import subprocess
import sys

MIN_BUILDX = (0, 24)
"""The oldest that the bake file is tried with; what it needs most is ``validation``, since 0.19."""

MIN_DOCKER = (20, 10)
"""The oldest that runs where there is only version 2 of control groups, as on Debian
(https://docs.docker.com/engine/release-notes/20.10/)."""


class PreflightError(RuntimeError):
    """A tool is missing or too old."""


def check_docker(output: str) -> str:
    """Return the version of Docker's server, as ``docker version`` prints it.

    Raises:
        PreflightError: no version in it, or one below :data:`MIN_DOCKER`.
    """
    return _check("docker", output, MIN_DOCKER, "docker.io")


def check_buildx(output: str) -> str:
    """Return the version in what ``docker buildx version`` prints.

    Raises:
        PreflightError: no version in it, or one below :data:`MIN_BUILDX`.
    """
    return _check("buildx", output, MIN_BUILDX, "docker-buildx")


def _check(tool: str, output: str, minimum: tuple[int, int], package: str) -> str:
    wanted = f"{'.'.join(map(str, minimum))} or newer is needed"
    match = re.search(r"\bv?(\d+)\.(\d+)\.\d+\S*", output)
    if match is None:
        raise PreflightError(f"{tool} says that its version is {output.strip()!r}; {wanted}")
    if (int(match[1]), int(match[2])) < minimum:
        raise PreflightError(
            f"{tool} {match[0]} is too old, {wanted}; where was it installed from? See apt-cache policy {package}"
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
        print("docker", check_docker(_output(["docker", "version", "--format", "{{.Server.Version}}"])))
        print("buildx", check_buildx(_output(["docker", "buildx", "version"])))
    except PreflightError as error:
        print(f"preflight: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
