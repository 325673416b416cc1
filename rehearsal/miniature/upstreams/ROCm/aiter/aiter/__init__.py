"""What was compiled ahead: PREBUILD, the level and the modules of it; module(name) loads one."""

import importlib
import importlib.util
import json
from pathlib import Path

from aiter._version import __version__

__all__ = ["PREBUILD", "__version__", "is_flydsl_available", "module"]

PREBUILD = json.loads((Path(__file__).parent / "jit/prebuilt.json").read_text())


def module(name):
    return importlib.import_module(f"aiter.jit.{name}")


def is_flydsl_available():
    return importlib.util.find_spec("flydsl") is not None
