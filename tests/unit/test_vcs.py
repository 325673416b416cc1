"""Which commit is built, and whether the context still is that commit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from infra import vcs

PATHS = ("docker", "rocm-bake.hcl")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker" / "Dockerfile").write_text("FROM scratch\n")
    (tmp_path / "rocm-bake.hcl").write_text("bake\n")
    (tmp_path / "README.md").write_text("read me\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "--quiet", "-m", "first")
    return tmp_path


def git(checkout: Path, *arguments: str) -> str:
    environment = {**os.environ, "GIT_COMMITTER_DATE": "2024-02-03T04:05:06+05:00"}
    command = ["git", "-C", str(checkout), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.strip()


def test_clean(checkout: Path) -> None:
    assert vcs.revision(checkout, PATHS) == vcs.Revision(
        ref=git(checkout, "rev-parse", "HEAD"), date="2024-02-02T23:05:06Z"
    )


@pytest.mark.parametrize("name", ["rocm-bake.hcl", "docker/Dockerfile", "docker/new"])
def test_a_change_of_the_context_is_dirty(checkout: Path, name: str) -> None:
    (checkout / name).write_text("changed\n")
    assert vcs.revision(checkout, PATHS).ref == f"{git(checkout, 'rev-parse', 'HEAD')}-dirty"


def test_a_change_elsewhere_is_not(checkout: Path) -> None:
    (checkout / "README.md").write_text("changed\n")
    assert vcs.revision(checkout, PATHS).ref == git(checkout, "rev-parse", "HEAD")


def test_a_checkout_in_another_one_s_repository(checkout: Path) -> None:
    inside = checkout / "unpacked"
    (inside / "docker").mkdir(parents=True)
    with pytest.raises(vcs.VcsError, match=r"tracks none of docker, rocm-bake\.hcl: it is another one's"):
        vcs.revision(inside, PATHS)


def test_files_are_those_that_git_would_take(checkout: Path) -> None:
    (checkout / ".gitignore").write_text("*.log\n")
    (checkout / "docker" / "a.log").write_text("")
    (checkout / "docker" / "new\nline").write_text("")
    (checkout / "rocm-bake.hcl").unlink()
    assert vcs.files(checkout, PATHS) == ("docker/Dockerfile", "docker/new\nline")


def test_no_commit_yet(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    with pytest.raises(vcs.VcsError, match=r"(?s)git show failed: .*at least one commit"):
        vcs.revision(tmp_path, PATHS)


def test_no_git(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(vcs.VcsError, match="git: not found on PATH"):
        vcs.revision(checkout, PATHS)
