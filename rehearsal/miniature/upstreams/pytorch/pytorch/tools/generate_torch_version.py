"""Writes torch/version.py."""

import sys
from pathlib import Path

ROOT = Path(__file__).absolute().parents[1]
sys.path.insert(0, str(ROOT / "tools/metadata"))

import version  # noqa: E402

hip, target = sys.argv[1:]
Path(target).write_text(
    f"__version__ = {version.torch_version()!r}\n"
    f"debug = False\ncuda = None\nhip = {hip!r}\ngit_version = {version.revision()!r}\n"
)
