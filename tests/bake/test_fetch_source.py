"""docker/fetch-source.sh on real git repositories."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

TIME = "2020-01-02T03:04:05+00:00"


@dataclass
class Fetched:
    status: int
    error: str
    output: str


class Upstream:
    """A repository with a tag on its first commit, an annotated one on its second, and a branch."""

    def __init__(self, folder: Path, script: Path) -> None:
        self.folder, self.script = folder, script
        self.address = f"file://{folder}"
        folder.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.first = self.commit("first")
        self.git("tag", "v1.9.0")
        self.second = self.commit("second")
        self.git("tag", "--annotate", "--message=a release", "v1.10.0")
        self.third = self.commit("third")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.folder,
            env={
                "PATH": os.environ["PATH"],
                "GIT_CONFIG_NOSYSTEM": "1",
                "HOME": "/nonexistent",
                **{f"GIT_{who}_{what}": "someone" for who in ["AUTHOR", "COMMITTER"] for what in ["NAME", "EMAIL"]},
                "GIT_AUTHOR_DATE": TIME,
                "GIT_COMMITTER_DATE": TIME,
            },
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    def commit(self, content: str) -> str:
        (self.folder / "file").write_text(content)
        self.git("add", "--all")
        self.git("commit", "--quiet", f"--message={content}")
        return self.git("rev-parse", "HEAD")

    def fetch(self, ref: str, target: Path, *options: str, address: str = "") -> Fetched:
        done = subprocess.run(
            [self.script, "A_REF", address or self.address, ref, target, *options],
            check=False,
            capture_output=True,
            text=True,
            # Only a test's submodules come from files.
            env={**os.environ, "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "protocol.file.allow"}
            | {"GIT_CONFIG_VALUE_0": "always"},
            stdin=subprocess.DEVNULL,
        )
        return Fetched(done.returncode, done.stderr, done.stdout)


@pytest.fixture
def upstream(checkout: Path, tmp_path: Path) -> Upstream:
    return Upstream(tmp_path / "upstream", checkout / "docker/fetch-source.sh")


def git_in(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize(
    ("ref", "content", "name"),
    [
        ("v1.9.0", "first", "refs/tags/v1.9.0"),
        ("refs/tags/v1.10.0", "second", "refs/tags/v1.10.0"),
        ("COMMIT", "second", "COMMIT"),
    ],
)
def test_exactly_the_ref(upstream: Upstream, tmp_path: Path, ref: str, content: str, name: str) -> None:
    target = tmp_path / "target"
    ref, name = (text.replace("COMMIT", upstream.second) for text in [ref, name])
    fetched = upstream.fetch(ref, target)
    commit = {"first": upstream.first, "second": upstream.second}[content]
    assert fetched == Fetched(0, "", f"fetch-source: {target} is {upstream.address} at {name}, commit {commit}\n")
    assert (target / "file").read_text() == content
    assert git_in(target, "rev-list", "--all", "HEAD") == commit, "there is history"
    assert git_in(target, "status", "--porcelain") == ""


def test_a_tag_is_found_by_its_name(upstream: Upstream, tmp_path: Path) -> None:
    assert upstream.fetch("v1.10.0", tmp_path / "target").status == 0
    assert git_in(tmp_path / "target", "describe") == "v1.10.0"


def test_files_have_the_time_of_the_commit(upstream: Upstream, tmp_path: Path) -> None:
    upstream.fetch("v1.9.0", tmp_path / "target")
    assert (tmp_path / "target/file").stat().st_mtime == 1577934245


@pytest.mark.parametrize(
    ("ref", "near"),
    [
        ("v1.9.1", "v1.9.0, v1.10.0"),
        ("1.10.0", "v1.9.0, v1.10.0"),
        ("refs/tags/v3.0", "v1.9.0, v1.10.0"),
    ],
)
def test_missing_tag(upstream: Upstream, tmp_path: Path, ref: str, near: str) -> None:
    # Not a release, so not near to any.
    upstream.git("tag", "ciflow/1.9.5")
    fetched = upstream.fetch(ref, tmp_path / "target")
    assert fetched == Fetched(
        1,
        f'fetch-source: A_REF is "{ref}", which {upstream.address} does not have: '
        f"set it to one of its tags, such as {near}, or to a full commit\n",
        "",
    )
    assert not (tmp_path / "target").exists()


def test_only_the_nearest_releases_are_named(upstream: Upstream, tmp_path: Path) -> None:
    for number in range(11, 20):
        upstream.git("tag", f"v1.{number}.0")
    fetched = upstream.fetch("v1.14.5", tmp_path / "target")
    assert "tags, such as v1.13.0, v1.14.0, v1.15.0, v1.16.0, or" in fetched.error


def test_missing_tag_without_releases(upstream: Upstream, tmp_path: Path) -> None:
    upstream.git("tag", "--delete", "v1.9.0", "v1.10.0")
    fetched = upstream.fetch("v1.9.0", tmp_path / "target")
    assert fetched.error.endswith("does not have: set it to one of its tags, or to a full commit\n")


def test_release(upstream: Upstream, tmp_path: Path) -> None:
    assert upstream.fetch("1.10.0", tmp_path / "target", "--release").status == 0
    assert (tmp_path / "target/file").read_text() == "second"
    assert upstream.fetch("1.9.1", tmp_path / "missing", "--release") == Fetched(
        1,
        f'fetch-source: A_REF is "1.9.1", and {upstream.address} has no tag v1.9.1: '
        "set it to one of its releases, such as 1.9.0, 1.10.0\n",
        "",
    )


def test_missing_commit(upstream: Upstream, tmp_path: Path) -> None:
    missing = "0123456789" * 4
    fetched = upstream.fetch(missing, tmp_path / "target")
    assert fetched.status == 1
    # Before it is what git says; its server, here a process of its own, says the same once more, first or last.
    assert f'fetch-source: A_REF is "{missing}", which {upstream.address} does not hand out; ' in fetched.error
    assert f"fatal: remote error: upload-pack: not our ref {missing}\n" in fetched.error


@pytest.mark.parametrize("ref", ["main", "refs/heads/main"])
def test_branch(upstream: Upstream, tmp_path: Path, ref: str) -> None:
    refused = upstream.fetch(ref, tmp_path / "target")
    assert (refused.status, refused.output) == (1, "")
    assert refused.error == (
        f'fetch-source: A_REF is "{ref}", which is no tag of {upstream.address} but a branch: set it to a tag or a '
        "full commit, because a branch moves and what was cloned once is served from the layer cache\n"
    )
    assert upstream.fetch(ref, tmp_path / "target", "--any-ref").status == 0
    assert (tmp_path / "target/file").read_text() == "third"


def test_a_tag_goes_before_a_branch_of_its_name(upstream: Upstream, tmp_path: Path) -> None:
    upstream.git("branch", "v1.9.0", "main")
    assert upstream.fetch("v1.9.0", tmp_path / "target", "--any-ref").status == 0
    assert (tmp_path / "target/file").read_text() == "first"


def test_repository_that_is_not_there(upstream: Upstream, tmp_path: Path) -> None:
    address = f"file://{tmp_path}/nothing"
    fetched = upstream.fetch("v1.9.0", tmp_path / "target", address=address)
    assert fetched.status == 1
    assert fetched.error.endswith(f"fetch-source: A_REF: {address} cannot be read; what git says is above\n")
    assert "does not appear to be a git repository" in fetched.error


def test_submodules_of_submodules(upstream: Upstream, tmp_path: Path) -> None:
    inner = Upstream(tmp_path / "inner", upstream.script)
    middle = Upstream(tmp_path / "middle", upstream.script)
    for outside, inside in [(middle, inner), (upstream, middle)]:
        allowed = ["-c", "protocol.file.allow=always"]
        outside.git(*allowed, "submodule", "--quiet", "add", inside.address, "below")
        outside.git("-C", "below", "checkout", "--quiet", inside.first if inside is inner else "HEAD")
        outside.commit("with a submodule")
        outside.git("tag", "v2.0")

    assert upstream.fetch("v2.0", tmp_path / "without").status == 0
    assert list((tmp_path / "without/below").iterdir()) == []

    target = tmp_path / "with"
    assert upstream.fetch("v2.0", target, "--submodules").status == 0
    assert (target / "below/below/file").read_text() == "first"
    assert git_in(target / "below", "rev-list", "--count", "HEAD") == "1", "there is history"
    assert (target / "below/below/file").stat().st_mtime == 1577934245


def test_unknown_option(upstream: Upstream, tmp_path: Path) -> None:
    fetched = upstream.fetch("v1.9.0", tmp_path / "target", "--depth=2")
    assert fetched.status == 2
    assert fetched.error.startswith("fetch-source: --depth=2 is no option; usage: fetch-source VARIABLE REPO ")


def test_missing_arguments(upstream: Upstream) -> None:
    done = subprocess.run([upstream.script, "A_REF", "repo", "ref"], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("fetch-source: usage: fetch-source VARIABLE REPO REF FOLDER ")
