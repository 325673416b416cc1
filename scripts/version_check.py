"""Holds the versions of rocm-bake.hcl against their upstreams and against the wheels in the registry.

python -m scripts.version_check

An environment variable of a version's name replaces the default, as for a build; so do REGISTRY, REGISTRY_NAME and
REGISTRY_INSECURE. The exit code is
    0  everything was compared and is as it should be
    1  something is to be done: a newer release, a tag that is not there, a wheel that is missing or of another version,
       a Rust, Triton or vLLM that is not the one that the other project asks for
    2  the bake file cannot be read
    3  nothing to be done, as far as could be asked: an upstream or the registry did not answer
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from buildspec import bakefile
from scripts import published, upstream

CHECKOUT = Path(__file__).resolve().parent.parent

EXIT_CURRENT, EXIT_TO_DO, EXIT_UNREADABLE, EXIT_UNKNOWN = range(4)


@dataclass(frozen=True)
class Release:
    """Where a version comes from: a repository, what its release tags have before the number, and the wheel's image."""

    repository: str
    prefix: str = "v"
    image: str | None = None

    def number(self, tag: str) -> tuple[int, ...] | None:
        """The release number in a tag, or None for another tag: a pre-release, a nightly build, a branch point."""
        found = re.fullmatch(rf"(?:{self.prefix})?(\d+(?:\.\d+)+)", tag)
        return None if found is None else tuple(int(part) for part in found[1].split("."))


RELEASES = {
    "PYTORCH_VERSION": Release("https://github.com/pytorch/pytorch.git", image="pytorch"),
    "ROCM_VERSION": Release("https://github.com/ROCm/ROCm.git", prefix="rocm-"),
    "PYTHON_VERSION": Release("https://github.com/python/cpython.git"),
    "TRITON_VERSION": Release("https://github.com/triton-lang/triton.git", image="triton"),
    "AITER_REF": Release("https://github.com/ROCm/aiter.git", image="aiter"),
    "TORCHVISION_REF": Release("https://github.com/pytorch/vision.git", image="torchvision"),
    "ATOM_REF": Release("", image="atom"),  # in ATOM_REPO
    "NIXL_REF": Release("https://github.com/ai-dynamo/nixl.git", image="nixl"),
    "UCX_REF": Release("https://github.com/openucx/ucx.git"),
    "VLLM_REF": Release("https://github.com/vllm-project/vllm.git", image="vllm"),
    "CUPY_REF": Release("https://github.com/cupy/cupy.git", image="cupy-wheel"),
    "LMCACHE_REF": Release("https://github.com/LMCache/LMCache.git", image="lmcache"),
    "SCCACHE_VERSION": Release("https://github.com/mozilla/sccache.git"),
}

# Where another project says which version it wants.
RUST_TOOLCHAIN = "rust-toolchain.toml"
TRITON_PIN = ".ci/docker/ci_commit_pins/triton.txt"
ATOM_VLLM_TARGET = "atom/plugin/vllm/vllm-version.env"

VLLM_TARGET_OF_ATOM = {"v0.1.9": "0.31.0"}
"""What ATOM_VLLM_TARGET says at a tag of the default ATOM_REPO: the skew is reported without a network, too.

Only what has been read there belongs here; when ATOM's repository answers, its answer counts.
"""


@dataclass(frozen=True)
class Finding:
    """One row: `to_do` when somebody has to act, `unknown` when the question could not be asked."""

    variable: str
    is_set_to: str
    compared_with: str
    verdict: str
    to_do: bool = False
    unknown: bool = False


def check(values: Mapping[str, str]) -> list[Finding]:
    """All findings for these values of the bake variables, in the order of the table."""
    registry = published.Registry(values["REGISTRY"], values["REGISTRY_NAME"], values["REGISTRY_INSECURE"] == "true")
    questions: list[tuple[str, str, Callable[[], Finding]]] = [
        *((name, "newest release", partial(_release, name, release, values)) for name, release in RELEASES.items()),
        ("RUST_VERSION", f"vLLM's {RUST_TOOLCHAIN}", partial(_rust, values)),
        ("TRITON_REF", "PyTorch's pin", partial(_triton, values)),
        ("ATOM_REF", "vLLM of ATOM's plugin", partial(_skew, values)),
        *(
            (name, "wheel", partial(_wheel, name, release.image, registry, values))
            for name, release in RELEASES.items()
            if release.image is not None
        ),
    ]

    def answer(item: tuple[str, str, Callable[[], Finding]]) -> Finding:
        variable, about, question = item
        try:
            return question()
        except (upstream.UnreachableError, published.UnreachableError) as error:
            return Finding(variable, values[variable], about, f"no answer: {error}", unknown=True)
        except upstream.MissingError as error:
            return Finding(variable, values[variable], about, str(error), to_do=True)

    with ThreadPoolExecutor(max_workers=8) as pool:
        return list(pool.map(answer, questions))


def _release(variable: str, release: Release, values: Mapping[str, str]) -> Finding:
    value = values[variable]
    repository = release.repository or values["ATOM_REPO"]
    about = "newest release"
    tags = upstream.tags(repository)
    numbers = {number for tag in tags if (number := release.number(tag)) is not None}
    if not numbers:
        return Finding(variable, value, about, f"{repository} has no release tag", to_do=True)
    tag = value.removeprefix("refs/tags/")
    if variable.endswith("_REF") and tag not in tags and not upstream.COMMIT.fullmatch(value):
        return Finding(variable, value, about, f"{repository} has no tag {value}", to_do=True)
    # It names a base image and goes on after the release's number: 10.1.0-full.
    current = release.number(tag.partition("-")[0] if variable == "ROCM_VERSION" else tag)
    if current is None:
        shown = ".".join(map(str, max(numbers)))
        return Finding(variable, value, f"{about} {shown}", "no release number; not compared")
    # PYTHON_VERSION is a minor version, for which every patch release is the same.
    length = len(current)
    known = {number[:length] for number in numbers}
    newest = max(known)
    about = f"{about} {'.'.join(map(str, newest))}"
    if current not in known:
        return Finding(variable, value, about, f"{repository} has no release {value}", to_do=True)
    if newest > current:
        return Finding(variable, value, about, "newer release", to_do=True)
    return Finding(variable, value, about, "current")


def _rust(values: Mapping[str, str]) -> Finding:
    text = upstream.file_at(RELEASES["VLLM_REF"].repository, values["VLLM_REF"], RUST_TOOLCHAIN)
    try:
        channel = str(tomllib.loads(text)["toolchain"]["channel"])
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise upstream.MissingError(f"vLLM's {RUST_TOOLCHAIN} has no [toolchain] channel: {error}") from error
    return _same("RUST_VERSION", values, channel, f"vLLM {values['VLLM_REF']}: Rust {channel}")


def _triton(values: Mapping[str, str]) -> Finding:
    ref = values["GIT_REF"] or f"v{values['PYTORCH_VERSION']}"
    repository = RELEASES["PYTORCH_VERSION"].repository
    pin = upstream.file_at(repository, ref, TRITON_PIN, may_be_branch=bool(values["GIT_REF"])).strip()
    return _same("TRITON_REF", values, pin, f"PyTorch {ref}: Triton {pin}")


def _same(variable: str, values: Mapping[str, str], wanted: str, about: str) -> Finding:
    if values[variable] == wanted:
        return Finding(variable, values[variable], about, "the same")
    return Finding(variable, values[variable], about, f"differs: set {variable} to {wanted}", to_do=True)


def _skew(values: Mapping[str, str]) -> Finding:
    repository, ref = values["ATOM_REPO"], values["ATOM_REF"]
    recorded = ""
    try:
        text = upstream.file_at(repository, ref, ATOM_VLLM_TARGET)
    except upstream.UnreachableError:
        is_default = repository == "https://github.com/ROCm/ATOM.git"
        if not is_default or ref not in VLLM_TARGET_OF_ATOM:
            raise
        target, recorded = VLLM_TARGET_OF_ATOM[ref], ", as recorded"
    else:
        found = re.search(r"^VLLM_VERSION=(\S+)$", text, re.MULTILINE)
        if found is None:
            raise upstream.MissingError(f"{repository} has no VLLM_VERSION in {ATOM_VLLM_TARGET} at {ref}")
        target = found[1]
    about = f"its plugin's target: vLLM {target}{recorded}"
    if values["VLLM_REF"].removeprefix("refs/tags/").removeprefix("v") == target:
        return Finding("ATOM_REF", ref, about, f"the same as VLLM_REF {values['VLLM_REF']}")
    verdict = f"skew: VLLM_REF is {values['VLLM_REF']}; see docs/atom-and-vllm.md"
    return Finding("ATOM_REF", ref, about, verdict, to_do=True)


def _wheel(variable: str, image: str, registry: published.Registry, values: Mapping[str, str]) -> Finding:
    value = values[variable]
    about = f"wheel {registry.host}/{registry.repository}:{image}"
    try:
        version = registry.version(image)
    except published.MissingError:
        return Finding(variable, value, about, f"not there; build it: make build-{image}", to_do=True)
    if version is None:
        return Finding(variable, value, about, f"has no label {published.VERSION_LABEL}; not compared", unknown=True)
    if version.removeprefix("refs/tags/") == value.removeprefix("refs/tags/"):
        return Finding(variable, value, about, "the same")
    return Finding(variable, value, about, f"is {version}; build it: make build-{image}", to_do=True)


def effective(bake_file: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The bake variables: from the environment when set there and not empty, as for `make build-...`, else the default.

    :raises bakefile.BakeFileError: the bake file cannot be read
    """
    variables = bakefile.load(bake_file).variables.values()
    return {variable.name: environment.get(variable.name) or variable.default for variable in variables}


def show(findings: list[Finding], console: Console) -> None:
    """Print the table, and below it what could not be asked."""
    table = Table("Variable", "Set to", "Compared with", "Verdict", box=box.SIMPLE_HEAD)
    for finding in findings:
        style = "red" if finding.to_do else "yellow" if finding.unknown else None
        table.add_row(finding.variable, finding.is_set_to, finding.compared_with, finding.verdict, style=style)
    console.print(table)
    unknown = [finding for finding in findings if finding.unknown]
    to_do = sum(finding.to_do for finding in findings)
    if unknown and not any(finding.verdict in ("current", "newer release") for finding in findings):
        console.print("Offline: no upstream answered, so nothing was compared with its newest release.")
    console.print(
        f"{to_do} to do, {len(unknown)} not compared, {len(findings) - to_do - len(unknown)} as they should be"
    )
    console.print("ATOM_REPO and GIT_REF have no upstream release to be compared with.")


def main() -> int:
    """Run the check; the exit code is documented at the top."""
    try:
        values = effective(CHECKOUT / "rocm-bake.hcl", os.environ)
    except bakefile.BakeFileError as error:
        print(error, file=sys.stderr)
        return EXIT_UNREADABLE
    findings = check(values)
    # To a file or a pipe nothing is cut: a verdict has the command that mends it.
    show(findings, Console() if sys.stdout.isatty() else Console(width=200))
    if any(finding.to_do for finding in findings):
        return EXIT_TO_DO
    return EXIT_UNKNOWN if any(finding.unknown for finding in findings) else EXIT_CURRENT


if __name__ == "__main__":
    sys.exit(main())
