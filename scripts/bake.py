"""Runs Bake on one target or group, with the variables that make supplies: `make build-TARGET` is this.

BAKE_EXTRA has further arguments of `docker buildx bake`, quoted as for a shell.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Sequence
from itertools import pairwise

from scripts import supplied

BAKE = ("docker", "buildx", "bake", "--file", "rocm-bake.hcl")

# Bake takes `+=` as well, and an argument without a value from the environment.
_SET_ARGUMENT = re.compile(r"[^=]*\.args\.(?P<name>[^=]+?)\+?(=(?P<value>.*))?", re.DOTALL)


class UsageError(ValueError):
    """BAKE_EXTRA cannot be passed on; the message says what to write instead."""


def extra_arguments(text: str, variables: Sequence[str], target: str) -> list[str]:
    """The words of BAKE_EXTRA.

    :raises UsageError: unbalanced quotes, or a --set of an argument that is named like a bake variable
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"BAKE_EXTRA is {text!r}: {error}; quote it as for a shell") from error
    for word, following in pairwise([*words, ""]):
        assignment = following if word == "--set" else word.removeprefix("--set=") if "--set=" in word else ""
        found = _SET_ARGUMENT.fullmatch(assignment)
        if found is not None and found["name"] in variables:
            name, value = found["name"], "..." if found["value"] is None else shlex.quote(found["value"])
            raise UsageError(
                f"BAKE_EXTRA: --set {assignment}: {name} is a bake variable, and an argument of that name does not set "
                "it: the value is not checked, and tags, labels, caches and the other arguments keep the one before. "
                f"Set it as: {name}={value} make build-{target}"
            )
    return words


def main(target: str) -> int:
    """Replace this process by Bake; return 2 when that cannot be."""
    try:
        extra = extra_arguments(os.environ.get("BAKE_EXTRA", ""), os.environ["BAKE_VARIABLES"].split(), target)
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    found = supplied.supply(supplied.read(os.environ))
    for notice in found.notices:
        print(f"build-{target}: {notice}", file=sys.stderr)
    command = [*BAKE, *extra, target]
    shown = [f"{name}={value}" for name, value in found.values.items() if found.sources[name] != "default"]
    print(shlex.join([*shown, *command]), file=sys.stderr, flush=True)
    try:
        os.execvpe(command[0], command, {**os.environ, **found.values})  # noqa: S606  (a list, never a shell's line)
    except FileNotFoundError:
        print("docker: not found on PATH; a build needs Docker with its buildx plugin", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
