"""The program's tests run on this checkout's files, under a git history of their own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from infra.context import PATHS
from infra.settings import CHECKOUT


@pytest.fixture(scope="session")
def git_history(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment in which git sees the checkout's files in one commit, made at a known time.

    The checkout's own history would do, but then the tests could not know what VCS_REF and BUILD_DATE must
    be.
    """
    folder = tmp_path_factory.mktemp("history")
    environment = {
        "GIT_DIR": str(folder / "git"),
        "GIT_WORK_TREE": str(CHECKOUT),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": "test",
        "GIT_AUTHOR_EMAIL": "test@example.com",
        "GIT_AUTHOR_DATE": "2024-02-03T04:05:06+01:00",
        "GIT_COMMITTER_NAME": "test",
        "GIT_COMMITTER_EMAIL": "test@example.com",
        "GIT_COMMITTER_DATE": "2024-02-03T04:05:06+01:00",
    }
    for command in (["init", "--quiet"], ["add", "--", *PATHS], ["commit", "--quiet", "--message=test"]):
        subprocess.run(["git", "-C", str(CHECKOUT), *command], check=True, env={**os.environ, **environment})
    return environment


@pytest.fixture(scope="module", autouse=True)
def module_history(git_history: dict[str, str]) -> Iterator[None]:
    """Let the program see `git_history` instead of the checkout's own."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in git_history.items():
            patch.setenv(name, value)
        yield
