"""The version: the release's, or else that of the commit."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).absolute().parents[2]


def revision():
    return subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True).strip()


def torch_version():
    if release := os.environ.get("PYTORCH_BUILD_VERSION"):
        number = int(os.environ["PYTORCH_BUILD_NUMBER"])
        return f"{release}.post{number}" if number > 1 else release
    return f"{(ROOT / 'version.txt').read_text().strip()}+git{revision()[:7]}"


def dynamic_metadata(settings, project):
    return {"version": torch_version()}
