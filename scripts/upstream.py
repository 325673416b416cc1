"""What upstream repositories have, asked by git over HTTPS: no API, no token, and forks and other hosts work alike.

To go through a mirror, say so to git: `git config --global url.https://mirror.example/.insteadOf https://github.com/`.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile

TIMEOUT_SECONDS = 120
COMMIT = re.compile(r"[0-9a-f]{40}")


class UnreachableError(Exception):
    """The repository did not answer; the message is git's own last line."""


class MissingError(Exception):
    """The repository answered, and has no such ref or file."""


def tags(repository: str) -> frozenset[str]:
    """Names of all tags.

    :raises UnreachableError: the repository did not answer
    """
    lines = _git("ls-remote", "--tags", "--refs", repository).splitlines()
    return frozenset(line.split("\t")[1].removeprefix("refs/tags/") for line in lines)


def file_at(repository: str, ref: str, path: str, *, may_be_branch: bool = False) -> str:
    """The text of one file at a tag or full commit, without the rest of the repository.

    With `may_be_branch` a plain name is a branch's when there is no such tag.

    :raises UnreachableError: the repository did not answer
    :raises MissingError: it has no such ref, or no such file there
    """
    with tempfile.TemporaryDirectory(prefix="upstream-") as directory:
        at = ("-C", directory)
        _git("init", "--quiet", "--bare", directory)
        _git(*at, "remote", "add", "origin", repository)
        # Trees and files are fetched when `show` comes to them.
        _git(*at, "config", "remote.origin.promisor", "true")
        _git(*at, "config", "remote.origin.partialclonefilter", "tree:0")
        # Of a plain name git itself takes the tag before the branch.
        is_full = COMMIT.fullmatch(ref) or ref.startswith("refs/") or may_be_branch
        full = ref if is_full else f"refs/tags/{ref}"
        try:
            _git(*at, "fetch", "--quiet", "--depth=1", "--filter=tree:0", "origin", full)
        except UnreachableError as error:
            if re.search(r"couldn't find remote ref|not our ref", str(error)):
                raise MissingError(f"{repository} has no {full}") from error
            raise
        try:
            return _git(*at, "show", f"FETCH_HEAD:{path}")
        except UnreachableError as error:
            if re.search(r"does not exist|exists on disk, but not in", str(error)):
                raise MissingError(f"{repository} has no {path} at {ref}") from error
            raise


def _git(*arguments: str) -> str:
    # Without a terminal git would wait for a password that a private or misspelt repository asks for.
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
            timeout=TIMEOUT_SECONDS,
        )
    except FileNotFoundError as error:
        raise UnreachableError("git: not found on PATH") from error
    except subprocess.TimeoutExpired as error:
        raise UnreachableError(f"no answer within {TIMEOUT_SECONDS} s") from error
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()
        raise UnreachableError(said[-1] if said else f"git {arguments[0]} ended with {done.returncode}")
    return done.stdout
