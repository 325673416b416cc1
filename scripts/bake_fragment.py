"""Writes what make needs to know of rocm-bake.hcl, so that make itself need not start Python.

python -m scripts.bake_fragment BAKE_FILE DIRECTORY

`DIRECTORY/bake.mk` gets the names of targets and groups, and each variable's default. `DIRECTORY/rocm-bake.hcl` gets
what it was written from: the Makefile compares that with the bake file, and runs this again when they differ.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import hcl2

from buildspec import bakefile

FRAGMENT = "bake.mk"
COPY = "rocm-bake.hcl"

READ_FROM_THE_ENVIRONMENT = frozenset(
    {"CACHE_TAG_SUFFIX", "PUBLISHED_INPUTS", "RUN_ID", "SCCACHE_LOG", "SCCACHE_WEBDAV_ENDPOINT"}
)
"""Variables that `--set '*.args.X=...'` may not set, besides those that no target takes as an argument of that name.

Some are arguments as well, but of the targets that compile alone, and composed from other variables.
"""


def fragment(declared: bakefile.BakeFile, arguments: Iterable[str]) -> str:
    """The makefile fragment; `arguments` are the names of arguments that targets have.

    :raises bakefile.BakeFileError: a default that a makefile cannot hold
    """
    targets = [name for name, target in declared.targets.items() if not target.is_abstract]
    only = sorted((declared.variables.keys() - set(arguments)) | READ_FROM_THE_ENVIRONMENT)
    lines = [
        "# Written by scripts/bake_fragment.py from rocm-bake.hcl; make writes it again when that changes.",
        f"BAKE_TARGETS := {' '.join([*targets, *declared.groups])}",
        f"BAKE_VARIABLES := {' '.join(declared.variables)}",
        f"BAKE_ENVIRONMENT_ONLY := {' '.join(only)}",
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


def arguments(path: Path) -> set[str]:
    """The names of all arguments of all targets.

    :raises OSError: the file cannot be read
    """
    document = hcl2.loads(path.read_text(encoding="utf-8"))
    bodies = [body for block in document.get("target", []) for body in block.values() if isinstance(body, dict)]
    return {name for body in bodies for name in body.get("args", {})}


def main(bake_file: Path, directory: Path) -> int:
    """Write the two files; the exit code is 1, with one line on standard error, for a file that cannot be read."""
    try:
        text = fragment(bakefile.load(bake_file), arguments(bake_file))
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
