"""What every page that is generated whole has in common: it is written, or with `--check` compared."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str], path: Path, text: str, *, module: str, sources: str) -> int:
    """Write `text` to `path`, or with `--check` compare them; return the exit status.

    Args:
        arguments: the command line.
        path: the page.
        text: what it has to say.
        module: the module that is run to write it, for its usage.
        sources: what it is generated from, for the message.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=f"Generate {path.name}.")
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 when the page is out of date")
    if not parser.parse_args(arguments).check:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return 0
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return 0
    print(f"{path}: out of date with {sources}; run: make docs", file=sys.stderr)
    return 1
