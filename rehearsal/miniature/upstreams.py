"""The small upstreams as git repositories, with the refs that rocm-bake.hcl's defaults name."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from buildspec.bakefile import BakeFile
from rehearsal.console import StepError

SOURCES = Path(__file__).parent / "upstreams"

_FOLDER = {
    "PYTORCH_VERSION": "pytorch/pytorch",
    "TORCHVISION_REF": "pytorch/vision",
    "AITER_REF": "ROCm/aiter",
    "ATOM_REF": "ROCm/ATOM",
    "CUPY_REF": "cupy/cupy",
    "NIXL_REF": "ai-dynamo/nixl",
    "UCX_REF": "openucx/ucx",
    "LMCACHE_REF": "LMCache/LMCache",
    "VLLM_REF": "vllm-project/vllm",
}
"""Bake variable -> the repository that its value is a tag of. Triton's is a commit, which nobody can make again."""

_TRITON = "triton-lang/triton"

# Of every commit, so that the commits, and with them what is built, are the same on every machine.
_WHEN = "1700000000 +0000"
_IDENTITY = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in {"NAME": "miniature", "EMAIL": "miniature@example.org", "DATE": _WHEN}.items()
}


class Upstreams:
    """Bare repositories, `<owner>/<name>.git`, in one folder."""

    def __init__(self, directory: Path, bake_file: BakeFile, sources: Path = SOURCES) -> None:
        """Make the repositories.

        Args:
            directory: where; emptied.
            bake_file: its defaults are the tags.
            sources: a folder with `<owner>/<name>`, one folder of plain files an upstream.
        """
        self.directory = directory
        self._sources = sources
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        self.commits: dict[str, str] = {}
        """`<owner>/<name>` -> its commit."""
        for folder in sorted(path for path in sources.glob("*/*") if path.is_dir()):
            self._commit(folder.relative_to(sources).as_posix())
        for variable, name in _FOLDER.items():
            default = bake_file.variables[variable].default
            self.tag(name, f"v{default}" if variable == "PYTORCH_VERSION" else default)

    def bake_variables(self) -> Mapping[str, str]:
        """The bake variables without which these upstreams cannot be built."""
        return {"TRITON_REF": self.commits[_TRITON]}

    def tag(self, name: str, tag: str) -> None:
        """Tag the newest commit of a repository."""
        self._git(name, "tag", "--force", tag, self.commits[name])

    def change(self, name: str, file: str, text: str, tag: str) -> None:
        """Commit a new content of one file on top, as upstream's next release, and tag that."""
        blob = self._git(name, "hash-object", "-w", "--stdin", stdin=text)
        self._git(name, "read-tree", self.commits[name])
        self._git(name, "update-index", "--add", "--cacheinfo", f"100644,{blob},{file}")
        self._write_commit(name, "-p", self.commits[name])
        self.tag(name, tag)

    def _commit(self, name: str) -> str:
        """The commit of a repository, which is made on the first call, those of its submodules before it."""
        if name in self.commits:
            return self.commits[name]
        source = self._sources / name
        self._run("git", "init", "--quiet", "--bare", "--initial-branch=main", self._repository(name))
        self._git(name, f"--work-tree={source}", "add", "--all", folder=source)
        for path, submodule in self._submodules(source):
            self._git(name, "update-index", "--add", "--cacheinfo", f"160000,{self._commit(submodule)},{path}")
        self._write_commit(name)
        return self.commits[name]

    def _write_commit(self, name: str, *parent: str) -> None:
        tree = self._git(name, "write-tree")
        self.commits[name] = self._git(name, "commit-tree", *parent, "-m", "miniature", tree)
        self._git(name, "update-ref", "refs/heads/main", self.commits[name])

    def _submodules(self, source: Path) -> list[tuple[str, str]]:
        """Path and repository of each submodule that a `.gitmodules` names by its address on GitHub."""
        file = source / ".gitmodules"
        if not file.exists():
            return []
        lines = self._run("git", "config", "--file", file, "--get-regexp", r"^submodule\..*\.(path|url)$").splitlines()
        values = dict(line.split(maxsplit=1) for line in lines)
        return [
            (path, values[f"{key.removesuffix('.path')}.url"].removeprefix("https://github.com/").removesuffix(".git"))
            for key, path in values.items()
            if key.endswith(".path")
        ]

    def _repository(self, name: str) -> Path:
        return self.directory / f"{name}.git"

    def _git(self, name: str, *arguments: str, stdin: str | None = None, folder: Path | None = None) -> str:
        repository = self._repository(name)
        return self._run("git", f"--git-dir={repository}", *arguments, stdin=stdin, folder=folder or repository).strip()

    def _run(self, *command: str | Path, stdin: str | None = None, folder: Path | None = None) -> str:
        # A person's own settings (signed commits, line endings) would make other commits.
        environment = {**os.environ, **_IDENTITY, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, env=environment, cwd=folder
        )
        if done.returncode != 0:
            raise StepError(shlex.join(map(str, command)), f"exited {done.returncode}: {done.stderr.strip()}")
        return done.stdout
