"""A checkout of its own to run make in, with a docker that passes on to buildx or writes down what it is asked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PARTS = ("Makefile", "rocm-bake.hcl", "requirements.txt", "scripts", "buildspec", "infra", "docker")


class Tree:
    """A checkout in a folder with a blank in its name, and make in it, with only what is set in the environment."""

    def __init__(self, path: Path, docker: Path) -> None:
        self.path, self.docker = path, docker

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {name: os.environ[name] for name in ("HOME", "XDG_CACHE_HOME") if name in os.environ}
        path = f"{self.docker.parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**kept, "PATH": path, "GIT_CONFIG_GLOBAL": "/dev/null", **variables}
        return subprocess.run(command, cwd=self.path, env=environment, capture_output=True, text=True, check=False)

    def make(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run("make", *arguments, **variables)

    def asked(self, *arguments: str, **variables: str) -> tuple[list[str], dict[str, str]]:
        """Arguments and environment of docker in a run of make that succeeds; needs the docker that writes down."""
        done = self.make(*arguments, **variables)
        assert done.returncode == 0, done.stderr
        asked = json.loads(done.stdout)
        return asked["arguments"], asked["environment"]

    def values(self, *arguments: str, **variables: str) -> dict[str, tuple[str, str]]:
        """Value and source of each variable, as make list-vars shows them."""
        done = self.make("list-vars", *arguments, **variables)
        assert done.returncode == 0, done.stderr
        sources = ("default", "environment", "make's command line", "make")
        rows = {}
        for line in done.stdout.splitlines():
            name, rest = line.split(maxsplit=1)
            source = next(source for source in sources if rest.endswith(f" {source}"))
            rows[name] = (rest.removesuffix(source).strip(), source)
        return rows

    def git(self, *arguments: str) -> str:
        who = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        done = self.run("git", *who, *arguments, GIT_COMMITTER_DATE="2024-02-03T04:05:06+05:00")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def edit(self, name: str, old: str, new: str) -> None:
        file = self.path / name
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new, 1))


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture(scope="session")
def primed(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A committed copy of the checkout in which make has read the bake file, which takes seconds."""
    path = tmp_path_factory.mktemp("primed") / "a checkout"
    path.mkdir()
    for part in PARTS:
        source = checkout / part
        if source.is_dir():
            shutil.copytree(source, path / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, path / part)
    (path / ".gitignore").write_text("/.build/\n__pycache__/\n")
    tree = Tree(path, Path("/nowhere/docker"))
    tree.git("init", "--quiet")
    tree.git("add", ".")
    tree.git("commit", "--quiet", "-m", "first")
    done = tree.make("-n", "list-vars")
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture
def tree(primed: Path, tmp_path: Path) -> Tree:
    """A checkout with a docker that prints its arguments and environment as JSON."""
    docker = program(
        tmp_path / "bin" / "docker",
        "#!/usr/bin/env python3\n"
        "import json, os, sys\n"
        "json.dump({'arguments': sys.argv[1:], 'environment': dict(os.environ)}, sys.stdout)\n",
    )
    shutil.copytree(primed, tmp_path / "a checkout")
    return Tree(tmp_path / "a checkout", docker)


@pytest.fixture
def baking(tree: Tree, buildx: str, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """What Bake makes of a target: through make, or bare with `bare=True`."""
    docker = program(tmp_path / "bake" / "docker", f'#!/bin/sh\nshift\nexec "{buildx}" "$@"\n')

    def bake(target: str, *, bare: bool = False, **variables: str) -> dict[str, Any]:
        through = Tree(tree.path, docker)
        if bare:
            done = through.run("docker", "buildx", "bake", "--file", "rocm-bake.hcl", "--print", target, **variables)
        else:
            done = through.make(f"build-{target}", BAKE_EXTRA="--print", **variables)
        assert done.returncode == 0, done.stderr
        printed: dict[str, Any] = json.loads(done.stdout)
        return printed

    return bake
