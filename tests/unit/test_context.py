"""The build context is the same archive for the same tree, and holds that tree and nothing else."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from infra import context
from infra.vcs import VcsError


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return make_checkout(tmp_path / "checkout")


def make_checkout(path: Path) -> Path:
    (path / "docker").mkdir(parents=True)
    (path / "buildspec" / "box").mkdir(parents=True)
    (path / "rocm-bake.hcl").write_text("bake\n")
    (path / "docker" / "Dockerfile").write_text("FROM scratch\n")
    (path / "docker" / "run.sh").write_text("#!/bin/sh\n")
    (path / "docker" / "run.sh").chmod(0o755)
    (path / "buildspec" / "box" / "runner.py").write_text("run\n")
    (path / "infra.py").write_text("not for the box\n")
    (path / ".gitignore").write_text("__pycache__/\n.env\n")
    subprocess.run(["git", "init", "--quiet", str(path)], check=True)
    return path


def test_archive_has_these_files_in_this_form(checkout: Path) -> None:
    built = context.build(checkout)
    with tarfile.open(built.path) as archive:
        members = [(m.name, m.mode, m.mtime, m.uid, m.gid, m.uname, m.gname) for m in archive]
        assert archive.extractfile("rocm-bake.hcl").read() == b"bake\n"  # type: ignore[union-attr]  # it is there
    assert members == [
        ("buildspec/box/runner.py", 0o644, 0, 0, 0, "", ""),
        ("docker/Dockerfile", 0o644, 0, 0, 0, "", ""),
        ("docker/run.sh", 0o755, 0, 0, 0, "", ""),
        ("rocm-bake.hcl", 0o644, 0, 0, 0, "", ""),
    ]


def test_archive_is_named_by_its_content(checkout: Path) -> None:
    built = context.build(checkout)
    assert built.sha256 == hashlib.sha256(built.path.read_bytes()).hexdigest()
    assert built.path == checkout / ".build" / f"context-{built.sha256}.tar.gz"
    assert [entry.name for entry in built.path.parent.iterdir()] == [built.path.name]


def test_same_tree_gives_the_same_archive_elsewhere_and_later(checkout: Path, tmp_path: Path) -> None:
    other = make_checkout(tmp_path / "other")
    for file in (other / "docker").iterdir():
        os.utime(file, (1, 1))
    (other / "docker" / "Dockerfile").chmod(0o600)
    assert context.build(other).sha256 == context.build(checkout).sha256


@pytest.mark.parametrize("name", ["docker/__pycache__/a.pyc", "docker/.env", "infra.py"])
def test_ignored_files_and_files_elsewhere_make_no_difference(checkout: Path, name: str) -> None:
    before = context.build(checkout).sha256
    (checkout / name).parent.mkdir(exist_ok=True)
    (checkout / name).write_text("changed")
    assert context.build(checkout).sha256 == before


def test_content_name_and_mode_make_a_difference(checkout: Path) -> None:
    seen = {context.build(checkout).sha256}
    (checkout / "rocm-bake.hcl").write_text("other\n")
    seen.add(context.build(checkout).sha256)
    (checkout / "docker" / "Dockerfile").chmod(0o755)
    seen.add(context.build(checkout).sha256)
    (checkout / "docker" / "Dockerfile").rename(checkout / "docker" / "Dockerfile.x")
    seen.add(context.build(checkout).sha256)
    assert len(seen) == 4


def test_a_file_that_was_deleted_but_is_still_tracked_is_left_out(checkout: Path) -> None:
    subprocess.run(["git", "-C", str(checkout), "add", "."], check=True)
    (checkout / "docker" / "run.sh").unlink()
    with tarfile.open(context.build(checkout).path) as archive:
        assert "docker/run.sh" not in archive.getnames()


def test_a_link_is_refused(checkout: Path) -> None:
    (checkout / "docker" / "link").symlink_to("/etc/passwd")
    with pytest.raises(context.ContextError, match="docker/link: only plain files"):
        context.build(checkout)


def test_a_missing_part_is_refused(checkout: Path) -> None:
    (checkout / "rocm-bake.hcl").unlink()
    with pytest.raises(context.ContextError, match=r"rocm-bake\.hcl: not there"):
        context.build(checkout)


def test_outside_of_git_it_is_refused(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / ".git").rename(checkout / "git")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(checkout.parent))
    with pytest.raises(VcsError, match="not a git repository"):
        context.build(checkout)
