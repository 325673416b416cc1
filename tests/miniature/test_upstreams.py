"""The small upstreams are real repositories that answer as GitHub does, the same on every machine."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from buildspec import bakefile
from rehearsal.miniature.git_server import GitServer
from rehearsal.miniature.upstreams import Upstreams


@pytest.fixture(scope="module")
def bake_file(checkout: Path) -> bakefile.BakeFile:
    return bakefile.load(checkout / "rocm-bake.hcl")


@pytest.fixture
def upstreams(tmp_path: Path, bake_file: bakefile.BakeFile) -> Upstreams:
    return Upstreams(tmp_path / "git", bake_file)


@pytest.fixture
def address(upstreams: Upstreams) -> Iterator[str]:
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    with GitServer(upstreams.directory, listening):
        yield f"http://127.0.0.1:{port}"


def git(*arguments: str | Path) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_each_ref_of_the_bake_file_is_a_tag_and_triton_s_a_commit(
    address: str, bake_file: bakefile.BakeFile, upstreams: Upstreams
) -> None:
    for variable, name in {
        "TORCHVISION_REF": "pytorch/vision",
        "AITER_REF": "ROCm/aiter",
        "ATOM_REF": "ROCm/ATOM",
        "CUPY_REF": "cupy/cupy",
        "NIXL_REF": "ai-dynamo/nixl",
        "UCX_REF": "openucx/ucx",
        "LMCACHE_REF": "LMCache/LMCache",
        "VLLM_REF": "vllm-project/vllm",
    }.items():
        assert git("ls-remote", "--tags", f"{address}/{name}.git") == (
            f"{upstreams.commits[name]}\trefs/tags/{bake_file.variables[variable].default}"
        )
    pytorch = git("ls-remote", "--tags", f"{address}/pytorch/pytorch")
    assert pytorch.endswith(f"\trefs/tags/v{bake_file.variables['PYTORCH_VERSION'].default}")
    assert upstreams.bake_variables() == {"TRITON_REF": upstreams.commits["triton-lang/triton"]}


def test_a_commit_can_be_fetched_alone(address: str, upstreams: Upstreams, tmp_path: Path) -> None:
    commit = upstreams.commits["triton-lang/triton"]
    clone = tmp_path / "clone"
    git("init", "--quiet", clone)
    git("-C", clone, "fetch", "--quiet", "--depth=1", f"{address}/triton-lang/triton", commit)
    assert git("-C", clone, "rev-parse", "FETCH_HEAD") == commit


def test_the_commits_are_the_same_every_time(
    upstreams: Upstreams, bake_file: bakefile.BakeFile, tmp_path: Path
) -> None:
    assert Upstreams(tmp_path / "again", bake_file).commits == upstreams.commits


def test_the_next_release_of_an_upstream_differs_in_one_file(
    address: str, upstreams: Upstreams, tmp_path: Path
) -> None:
    upstreams.change("vllm-project/vllm", "NEWS", "new\n", "v99.0.0")
    clone = tmp_path / "clone"
    git("clone", "--quiet", "--branch=v99.0.0", f"{address}/vllm-project/vllm", clone)
    assert git("-C", clone, "diff", "--name-only", "HEAD~1") == "NEWS"
    assert (clone / "NEWS").read_text() == "new\n"
