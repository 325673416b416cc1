"""docker/install-packages.sh, as far as no package manager is needed; the images' builds run the rest."""

from __future__ import annotations

import subprocess
from pathlib import Path


def test_no_package(checkout: Path) -> None:
    done = subprocess.run([checkout / "docker/install-packages.sh"], check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "install-packages: usage: install-packages PACKAGE...\n"
