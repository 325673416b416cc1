"""Make the Python environment that everything else runs in. Needs nothing but Python's standard library.

usage: python3 scripts/bootstrap.py DIRECTORY

Every package comes from requirements.txt, which pins versions and hashes. An interrupted run leaves no marker, so the
next one starts again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

_OLDEST_PYTHON = (3, 11)
_REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements.txt"
MARKER = ".complete"


def _fail(message: str) -> None:
    sys.exit(f"bootstrap: {message}")


def _require_venv() -> None:
    """Debian ships Python without ensurepip, which an environment starts from: install it, or say so."""
    probe = subprocess.run([sys.executable, "-c", "import ensurepip"], capture_output=True, check=False)
    if probe.returncode == 0:
        return
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    command = ["apt-get", "install", "--yes", "--no-install-recommends", package]
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        _fail(f"this Python has no ensurepip; on Debian or Ubuntu: {' '.join(command)}")
    print(f"bootstrap: installing {package}", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["apt-get", "update", "--quiet"], command):
        subprocess.run(arguments, check=True, env=environment)


def main(directory: Path) -> None:
    """Fill `directory`; a complete one has the marker."""
    if sys.version_info < _OLDEST_PYTHON:
        found = ".".join(map(str, sys.version_info[:3]))
        _fail(f"Python {'.'.join(map(str, _OLDEST_PYTHON))} or newer is needed, {sys.executable} is {found}")
    _require_venv()
    print(f"bootstrap: Python packages into {directory} (1 to 3 minutes, once)", flush=True)
    venv.EnvBuilder(clear=True, with_pip=True).create(directory)
    with tempfile.TemporaryFile("w+") as log:
        pip = [str(directory / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        done = subprocess.run(
            [*pip, "install", "--quiet", "--no-deps", "--require-hashes", "--requirement", str(_REQUIREMENTS)],
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode != 0:
            log.seek(0)
            last = "".join(log.readlines()[-20:])
            _fail(f"pip exited {done.returncode}:\n{last}next: see that the package index is reachable, run it again")
    (directory / MARKER).touch()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        _fail("usage: python3 scripts/bootstrap.py DIRECTORY")
    main(Path(sys.argv[1]))
