"""The lock: everything that pyproject.toml asks for is pinned in requirements.txt, and nothing says from where."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).parents[2]
LOCK = (CHECKOUT / "requirements.txt").read_text()
# pip joins what ends in a backslash; hashes are all that a pin's further lines hold.
PIN = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s\\]+) \\\n(?P<hashes>(?: {4}--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)"
)


def asked_for() -> list[Requirement]:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    groups: Mapping[str, list[str]] = {"project": project["project"]["dependencies"], **project["dependency-groups"]}
    return [Requirement(line) for lines in groups.values() for line in lines]


def pins() -> dict[str, str]:
    return {canonicalize_name(pin["name"]): pin["version"] for pin in PIN.finditer(LOCK)}


def needed_by(requirement: Requirement) -> list[Requirement]:
    """What the installed version of a requirement needs itself, with the extras that are asked for."""
    lines = metadata.requires(requirement.name) or []
    environments = [{"extra": extra} for extra in ("", *requirement.extras)]
    return [
        needed
        for needed in map(Requirement, lines)
        if needed.marker is None or any(needed.marker.evaluate(environment) for environment in environments)
    ]


@pytest.mark.parametrize("requirement", asked_for(), ids=str)
def test_pinned_to_a_version_that_satisfies(requirement: Requirement) -> None:
    assert requirement.url is None
    pinned = pins()[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(pinned, prereleases=True)


@pytest.mark.parametrize("requirement", asked_for(), ids=str)
def test_what_it_needs_is_pinned_too(requirement: Requirement) -> None:
    # pip installs the lock with --no-deps: what is missing there is missing.
    seen: set[str] = set()
    left = [requirement]
    while left:
        one = left.pop()
        if str(one) in seen:
            continue
        seen.add(str(one))
        assert one.specifier.contains(pins()[canonicalize_name(one.name)], prereleases=True), one
        left += needed_by(one)


def test_nothing_but_pins_with_hashes() -> None:
    rest = [line for line in PIN.sub("", LOCK).splitlines() if line and not line.lstrip().startswith("#")]
    assert rest == []
    assert len(pins()) == len(PIN.findall(LOCK))


def test_no_index_is_named() -> None:
    # A lock that names one sends everybody to the mirror of whoever wrote it. The comments are searched as well: they
    # hold the command that made it.
    assert re.findall(r"\S*://\S*|\b[a-z0-9-]+\.(?:com|dev|io|net|org)\b", LOCK) == []
