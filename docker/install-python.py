#!/usr/bin/env python3
"""Install Python packages around those that this stack builds itself.

    install-python siblings [FOLDER]
    install-python build-requires PROJECT CONSTRAINTS [--also REQUIREMENT] [--without NAME]

No registry's package may replace one of this stack's: it would be built for another GPU, or for none. `siblings`
installs the wheels below FOLDER (/siblings), and from the registry whatever else these require. `build-requires`
installs what PROJECT/pyproject.toml says that building takes, at the versions in the file CONSTRAINTS, and fails when
that file says that the project is not for this Python.

The exit status is 1 when that cannot be done, the installer's own when it fails, and 2 for wrong arguments.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from email.parser import HeaderParser
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

OURS = re.compile(
    r"torch|torchvision|(pytorch-)?triton(-rocm)?|(amd-)?aiter|atom|cupy(-(cuda|rocm).*)?|nixl(-(cu|rocm).*)?|lmcache|vllm"
)
"""Names of what this stack builds, and of builds of the same packages for other GPUs, as registries have them."""


@dataclass(frozen=True)
class Wheel:
    """A wheel's own word on what it is and what it requires."""

    path: Path
    name: str
    version: Version
    requires: list[Requirement]


def fail(message: str) -> SystemExit:
    """The end of this program."""
    return SystemExit(f"install-python: {message}")


def read_wheel(path: Path) -> Wheel:
    """Read a wheel's metadata; what only its extras require is left out."""
    with zipfile.ZipFile(path) as archive:
        file = next(name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
        fields = HeaderParser().parsestr(archive.read(file).decode())
    requires = [Requirement(line) for line in fields.get_all("Requires-Dist") or []]
    return Wheel(
        path,
        canonicalize_name(fields["Name"]),
        Version(fields["Version"]),
        [each for each in requires if each.marker is None or each.marker.evaluate({"extra": ""})],
    )


def find_wheels(folder: Path) -> dict[str, Wheel]:
    """Every wheel below a folder, by name."""
    wheels: dict[str, Wheel] = {}
    for path in sorted(folder.rglob("*.whl")):
        wheel = read_wheel(path)
        if other := wheels.get(wheel.name):
            raise fail(f"{path} and {other.path} are both {wheel.name}, of which there may be one")
        wheels[wheel.name] = wheel
    if not wheels:
        raise fail(f"there is no wheel below {folder}: mount the folder /wheels of each sibling's image there")
    return wheels


def run(*command: str | Path) -> None:
    """Run an installer, whose messages say what fails."""
    # What the base image pins for building would come before what the wheels ask for.
    environment = {name: value for name, value in os.environ.items() if name != "UV_CONSTRAINT"}
    done = subprocess.run(command, check=False, env=environment)
    if done.returncode != 0:
        raise SystemExit(done.returncode)


def install_from_registry(option: str, versions: str, requirements: Iterable[str]) -> None:
    """Install with uv, for which a file of versions may come before what packages say of each other."""
    if wanted := sorted(requirements):
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory, "versions.txt")
            file.write_text(versions)
            run("uv", "pip", "install", f"--python={sys.executable}", "--no-cache", option, file, *wanted)


def is_ours(requirement: Requirement) -> bool:
    """Whether a requirement is of something that this stack builds."""
    return OURS.fullmatch(canonicalize_name(requirement.name)) is not None


def check_untouched(wheels: Iterable[Wheel]) -> None:
    """Fail when a file of a sibling is not the one that its wheel brought."""
    for wheel in wheels:
        for file in metadata.distribution(wheel.name).files or []:
            if file.hash is None:
                continue
            found = hashlib.new(file.hash.mode, Path(file.locate()).read_bytes()).digest()
            if base64.urlsafe_b64encode(found).rstrip(b"=").decode() != file.hash.value:
                raise fail(
                    f"{file} is no longer the one of {wheel.path.name}: another package that was installed has such a "
                    "file. If it is another build of the same package, add its name to OURS in docker/install-python.py"
                )


def report_skews(wheels: dict[str, Wheel]) -> None:
    """Name the siblings that one of them asks for in another version than this stack's."""
    for wheel in wheels.values():
        for wanted in wheel.requires:
            other = wheels.get(canonicalize_name(wanted.name))
            if other and not wanted.specifier.contains(other.version, prereleases=True):
                print(
                    f"install-python: WARNING: {wheel.name} {wheel.version} asks for {wanted.name}{wanted.specifier}, "
                    f"and what is installed is this stack's {other.name} {other.version}",
                    flush=True,
                )


def install_siblings(folder: Path) -> None:
    """Install the wheels below a folder, and what they require."""
    wheels = find_wheels(folder)
    report_skews(wheels)
    # Not with uv, which writes a time into what it installs of a file, and so would make every image another.
    options = ("--no-deps", "--no-compile", "--root-user-action=ignore", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "install", *options, *(wheel.path for wheel in wheels.values()))
    requires = [each for wheel in wheels.values() for each in wheel.requires]
    # What is no sibling of this image, though ours, it does without: a compile step needs PyTorch, and not its Triton.
    absent = {canonicalize_name(each.name) for each in requires if is_ours(each)} - wheels.keys()
    overrides = [f"{wheel.name}=={wheel.version}" for wheel in wheels.values()]
    overrides += [f"{name}; python_version < '0'" for name in sorted(absent)]
    third_party = {str(each) for each in requires if not is_ours(each)}
    install_from_registry("--overrides", "\n".join(overrides), third_party)
    check_untouched(wheels.values())


def install_build_requires(project: Path, constraints: Path, also: list[str], without: list[str]) -> None:
    """Install what a project's own file says that building takes."""
    file = project / "pyproject.toml"
    try:
        document = tomllib.loads(file.read_text())
        requires = document["build-system"]["requires"]
    except (OSError, KeyError) as error:
        raise fail(f"{file} does not say what building takes: {error!r}") from error
    # uv builds a wheel for any Python, and pip would refuse it where it is installed, hours later. Where only
    # a setup.py names the Pythons, it still does. An unreleased Python counts as its release, as it does for pip.
    pythons, python = document.get("project", {}).get("requires-python", ""), ".".join(map(str, sys.version_info[:3]))
    if not SpecifierSet(pythons).contains(python, prereleases=True):
        raise fail(f"{file} is for Python {pythons}, and this is Python {python}: set PYTHON_VERSION to one of those")
    names = {canonicalize_name(name) for name in without}
    wanted = [each for each in map(Requirement, requires) if not is_ours(each)]
    kept = [str(each) for each in wanted if canonicalize_name(each.name) not in names]
    install_from_registry("--constraints", constraints.read_text(), [*kept, *also])


def main() -> None:
    """Read the command line, and do it."""
    parser = argparse.ArgumentParser(prog="install-python", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    siblings = commands.add_parser("siblings")
    siblings.add_argument("folder", nargs="?", type=Path, default=Path("/siblings"))
    build_requires = commands.add_parser("build-requires")
    build_requires.add_argument("project", type=Path)
    build_requires.add_argument("constraints", type=Path)
    build_requires.add_argument("--also", action="append", default=[], metavar="REQUIREMENT")
    build_requires.add_argument("--without", action="append", default=[], metavar="NAME")
    arguments = parser.parse_args()
    if arguments.command == "siblings":
        install_siblings(arguments.folder)
    else:
        install_build_requires(arguments.project, arguments.constraints, arguments.also, arguments.without)


if __name__ == "__main__":
    main()
