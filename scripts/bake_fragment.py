"""Writes what make needs to know of rocm-bake.hcl, so that make itself need not start Python.

python -m scripts.bake_fragment BAKE_FILE DIRECTORY

`DIRECTORY/bake.mk` gets the names of targets and groups, and each variable's default. `DIRECTORY/rocm-bake.hcl` gets
what it was written from: the Makefile compares that with the bake file, and runs this again when they differ.
"""

from __future__ import annotations

import sys
from pathlib import Path

from buildspec import bakefile

FRAGMENT = "bake.mk"
COPY = "rocm-bake.hcl"


def fragment(declared: bakefile.BakeFile) -> str:
    """The makefile fragment.

    :raises bakefile.BakeFileError: a default that a makefile cannot hold
    """
    targets = [name for name, target in declared.targets.items() if not target.is_abstract]
    lines = [
        "# Written by scripts/bake_fragment.py from rocm-bake.hcl; make writes it again when that changes.",
        f"BAKE_TARGETS := {' '.join([*targets, *declared.groups])}",
        f"BAKE_VARIABLES := {' '.join(declared.variables)}",
    ]
    for variable in declared.variables.values():
        # `ifndef` is true for a variable that is set but empty, too: it counts as unset, wherever it was set.
        lines += [f"ifndef {variable.name}", f"override {variable.name} := {_literal(variable)}", "endif"]
    return "\n".join(lines) + "\n"


def _literal(variable: bakefile.Variable) -> str:
    value = variable.default
    if "\n" in value or value != value.strip() or value.endswith("\\"):
        raise bakefile.BakeFileError(
            f"variable {variable.name}: default {value!r} has a line break, a blank or a backslash at an end, "
            "which the Makefile cannot pass on; write it without"
        )
    return value.replace("$", "$$").replace("#", r"\#")


def main(bake_file: Path, directory: Path) -> int:
    """Write the two files; the exit code is 1, with one line on standard error, for a file that cannot be read."""
    try:
        text = fragment(bakefile.load(bake_file))
        source = bake_file.read_text(encoding="utf-8")
    except (bakefile.BakeFileError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    directory.mkdir(parents=True, exist_ok=True)
    # The copy last and each by rename: what is interrupted is done again.
    for name, content in ((FRAGMENT, text), (COPY, source)):
        partial = directory / f"{name}.partial"
        partial.write_text(content, encoding="utf-8")
        partial.replace(directory / name)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
