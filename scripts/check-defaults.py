"""Fails when a default of rocm-bake.hcl is written down elsewhere with another value; each line says what mends it.

python scripts/check-defaults.py

Held against rocm-bake.hcl are what `make list-vars` reports (so what `make build-...` passes on), the ARG lines of the
Dockerfiles, and the places of PLACES. The documentation is `make version-scrub-check`'s.
"""

# ruff: noqa: N999  (a program, run by its name)

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from buildspec import bakefile  # noqa: E402  (the checkout is no installed package)

PLACES = {
    # Outside of Bake, whoever runs the script by itself gets the defaults of the bake file.
    ("docker/with-sccache.sh", r"\$\{REQUIRE_SCCACHE-(?P<value>[^}]*)\}"): "REQUIRE_SCCACHE",
    ("docker/with-sccache.sh", r"\$\{FORCE_RECACHE-(?P<value>[^}]*)\}"): "FORCE_RECACHE",
    # The rehearsal builds the sccache that a box builds.
    ("rehearsal/tools/engine.py", r'(?m)^SCCACHE_VERSION = "(?P<value>[^"]*)"$'): "SCCACHE_VERSION",
}
"""File and pattern of a value to the variable whose default it has to be; each pattern is found at least once."""

_ARG = re.compile(r"^[ \t]*ARG[ \t]+(?P<names>.*)$", re.MULTILINE | re.IGNORECASE)
_DEFAULT = re.compile(r"(?P<name>\w+)=(?P<value>\S*)")


def in_make(checkout: Path) -> dict[str, tuple[str, str]]:
    """Value and source of each variable as make sees them when nobody has set one."""
    environment = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "XDG_CACHE_HOME")}
    shown = subprocess.run(
        ["make", "--silent", "list-vars"], cwd=checkout, env=environment, capture_output=True, text=True, check=False
    )
    if shown.returncode != 0:
        sys.exit(f"check-defaults: make list-vars failed:\n{shown.stderr}")
    rows = (re.fullmatch(r"(\S+) +(.*?) +(default|make|Makefile)", line) for line in shown.stdout.splitlines())
    return {row[1]: ("" if row[2] == '""' else row[2], row[3]) for row in rows if row is not None}


def differences(checkout: Path) -> Iterator[str]:
    """One line for each value that is not the default of rocm-bake.hcl."""
    declared = bakefile.load(checkout / "rocm-bake.hcl").variables
    defaults = {name: variable.default for name, variable in declared.items()}
    make = in_make(checkout)
    for name in sorted(defaults.keys() | make.keys()):
        value, source = make.get(name, (None, "default"))
        if source != "make" and value != defaults.get(name):
            yield (
                f"make has {name}={value}, rocm-bake.hcl {defaults.get(name)}; run: rm .build/bake.mk, and take {name} "
                "out of the Makefile if it is there"
            )
    for path in sorted((checkout / "docker").glob("Dockerfile*")):
        text = path.read_text(encoding="utf-8")
        page = path.relative_to(checkout).as_posix()
        for argument in _ARG.finditer(text):
            line = text.count("\n", 0, argument.start()) + 1
            for found in _DEFAULT.finditer(argument["names"]):
                name = found["name"]
                if name in defaults:
                    yield (
                        f"{page}:{line}: ARG {name} has a default of its own, {found['value']}; "
                        f"run: sed -i '{line}s/\\b{name}=[^ ]*/{name}/' {page}"
                    )
    for (page, pattern), name in PLACES.items():
        text = (checkout / page).read_text(encoding="utf-8")
        values = {found["value"] for found in re.finditer(pattern, text)}
        if not values:
            yield f"{page}: has no {pattern} any more; run: git grep {name}, and mend PLACES in {Path(__file__).name}"
        for value in sorted(values - {defaults[name]}):
            yield (
                f"{page}: has {value} for {name}, rocm-bake.hcl {defaults[name]}; "
                f"run: sed -i '/{name}/s/{value}/{defaults[name]}/' {page}"
            )


def main() -> int:
    """Print the differences; the exit code is 1 when there is one."""
    try:
        found = list(differences(CHECKOUT))
    except bakefile.BakeFileError as error:
        found = [str(error)]
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
