"""BuildKit's own check of every Dockerfile, as rocm-bake.hcl uses it: `buildx bake --check`."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from rehearsal.tools import engine
from tests.bake.support import EVERY, Bake
from tests.conftest import cannot_run


class Checker:
    """Bake with a BuildKit that runs no step: a check needs none."""

    def __init__(self, bake: Bake, folder: Path, address: str) -> None:
        self.bake, self.folder = bake, folder
        self.environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
        create = [bake.buildx, "create", "--name=check", "--driver=remote", address]
        subprocess.run(create, check=True, env=self.environment, capture_output=True)

    def check(self, *targets: str, directory: Path, more: Sequence[Path] = ()) -> subprocess.CompletedProcess[str]:
        """Check the Dockerfiles below a folder, with an empty folder for every image that they start from.

        `more` are bake files that come after the checkout's.
        """
        added = [f"--file={file}" for file in more]
        empty = self.folder / "empty"
        empty.mkdir(exist_ok=True)
        printed = self.bake.print(*added, *targets)["target"]
        # BuildKit knows what these start from by the name alone, and would ask a registry.
        named = {"rocm": "rocm/dev-ubuntu-24.04:10.1.0-full", "vllm": "rust:1.95-slim-bookworm"}
        overrides = {
            name: {
                "context": str(directory),
                "contexts": dict.fromkeys([*target["contexts"], *filter(None, [named.get(name)])], str(empty)),
            }
            for name, target in printed.items()
        }
        file = self.folder / "overrides.json"
        file.write_text(json.dumps({"target": overrides}))
        files = [f"--file={self.bake.file}", *added, f"--file={file}"]
        allowed = [f"--allow=fs.read={path}" for path in (self.folder, directory)]
        return subprocess.run(
            [self.bake.buildx, "--builder=check", "bake", "--check", *files, *allowed, *targets],
            check=False,
            cwd=self.bake.checkout,
            env=self.environment,
            capture_output=True,
            text=True,
        )


@pytest.fixture(scope="module")
def checker(bake: Bake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checker]:
    if os.geteuid() != 0:
        cannot_run("BuildKit's daemon takes root")
    folder = tmp_path_factory.mktemp("buildkit")
    socket, log = folder / "socket", folder / "log"
    # Left to choose, the daemon would first look for a runc, which no check needs.
    worker = ["--containerd-worker=false", "--oci-worker=true"]
    worker += ["--oci-worker-snapshotter=native", "--oci-worker-binary=/bin/true"]
    with log.open("w") as output:
        daemon = subprocess.Popen(
            [engine.buildkit() / "buildkitd", f"--root={folder}/state", f"--addr=unix://{socket}", *worker],
            stdout=output,
            stderr=output,
        )
    try:
        while not socket.exists():
            assert daemon.poll() is None, log.read_text()
            time.sleep(0.05)
        yield Checker(bake, folder, f"unix://{socket}")
    finally:
        daemon.terminate()
        daemon.wait()


def number_without_warnings(checked: subprocess.CompletedProcess[str]) -> int:
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "WARNING" not in checked.stdout
    return checked.stdout.count("Check complete, no warnings found.")


def test_every_dockerfile(checker: Checker, checkout: Path) -> None:
    checked = checker.check(*sorted(EVERY), directory=checkout / "docker")
    assert number_without_warnings(checked) == len(EVERY)


@pytest.mark.parametrize("name", sorted(EVERY))
def test_no_step_mounts_the_build_context(checkout: Path, name: str) -> None:
    """docs/adr/0033-scripts-in-a-stage.md."""
    text = (checkout / f"docker/Dockerfile.{name}").read_text()
    assert [mount for mount in re.findall(r"--mount=type=bind,\S*", text) if ",from=" not in mount] == []


def test_the_dockerfile_of_the_canary(checker: Checker, checkout: Path) -> None:
    folder = checkout / "buildspec/box/canary"
    assert number_without_warnings(checker.check("canary", directory=folder, more=[folder / "canary.hcl"])) == 1


def test_the_check_finds_something(checker: Checker, checkout: Path, tmp_path: Path) -> None:
    text = (checkout / "docker/Dockerfile.triton").read_text()
    (tmp_path / "Dockerfile.triton").write_text(text.replace("FROM base AS build", "FROM base as build"))
    checked = checker.check("triton", directory=tmp_path)
    assert checked.returncode != 0
    assert "WARNING: FromAsCasing" in checked.stdout
