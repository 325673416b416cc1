"""Prints every bake variable with the value that `make build-...` would use, and where that comes from.

Run by `make list-vars`, which hands the values over.
"""

from __future__ import annotations

import os
import sys

from scripts import supplied


def main() -> int:
    """Print the table to standard output and notices to standard error."""
    found = supplied.supply(supplied.read(os.environ))
    shown = {name: value or '""' for name, value in found.values.items()}
    name_width, value_width = max(map(len, shown)), max(map(len, shown.values()))
    for name, value in shown.items():
        print(f"{name:{name_width}}  {value:{value_width}}  {found.sources[name]}")
    for notice in found.notices:
        print(f"list-vars: {notice}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
