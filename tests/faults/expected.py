"""What a fault has to come to: the file `expected.toml` in its folder.

Texts are whole ones, in which `*` stands for anything and `{name}` for one of the stacks' outputs or of the cache's
counts.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from buildspec.box.status import BuildStatus

_HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class ExpectedStatus:
    """Of the status object; what may be left out is marked. A key that is none of these is refused."""

    state: str
    phase: str | None = None
    """Left out: any."""
    exit_code: int | None = None
    """Left out: none."""
    failing_step: str | None = None
    """Left out: none."""
    last_lines: tuple[str, ...] = ()
    """Each is one of them."""
    warnings: tuple[str, ...] = ()
    """Each warning is like one of these. Left out: there is none."""
    images: tuple[str, ...] | None = None
    """The targets that were pushed. Left out: any."""
    cache: Mapping[str, int] | None = None
    """Counts of sccache. Left out: any."""
    log: tuple[str, ...] = ()
    """Each is a line of the build's log."""
    log_without: tuple[str, ...] = ()
    """None is a line of it."""

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> ExpectedStatus:
        """From the file's table.

        Raises:
            TypeError: a key that there is not, or `state` is missing.
        """
        fields: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in content.items()
        }
        return cls(**fields)

    def unmet(self, status: BuildStatus, log: str, names: Mapping[str, Any]) -> list[str]:
        """What is not as it should be, a line each."""
        counts = {name: value for name, value in (status["cache"] or {}).items() if isinstance(value, int)}
        names = {**names, **counts}
        same: list[tuple[str, object, object]] = [
            ("state", self.state, status["state"]),
            ("phase", self.phase or status["phase"], status["phase"]),
            ("exit code", self.exit_code, status["exitCode"]),
        ]
        if self.images is not None:
            same.append(("images", list(self.images), list(status["images"])))
        if self.cache is not None:
            same.append(("cache", dict(self.cache), {name: counts.get(name) for name in self.cache}))
        unmet = [f"{what}: {is_!r}, and not {should!r}" for what, should, is_ in same if is_ != should]
        step = status["failingStep"]
        if not like_one_of(step or "", [self.failing_step or ""], names):
            unmet.append(f"failing step: {step!r}, and not {self.failing_step!r}")
        unmet += [f"no last line {text!r}" for text in missing(self.last_lines, status["lastLines"], names)]
        unmet += [f"warning {text!r}" for text in status["warnings"] if not like_one_of(text, self.warnings, names)]
        unmet += [f"no line {text!r} in the log" for text in missing(self.log, log.splitlines(), names)]
        unmet += [f"the log says {line!r}" for line in log.splitlines() if like_one_of(line, self.log_without, names)]
        return unmet


def like_one_of(text: str, patterns: Iterable[str], names: Mapping[str, Any]) -> bool:
    wholes = (".*".join(map(re.escape, pattern.format_map(names).split("*"))) for pattern in patterns)
    return any(re.fullmatch(whole, text, re.DOTALL) for whole in wholes)


def missing(patterns: Iterable[str], lines: Iterable[str], names: Mapping[str, Any]) -> list[str]:
    """The patterns that no line is like."""
    lines = list(lines)
    return [pattern for pattern in patterns if not any(like_one_of(line, [pattern], names) for line in lines)]


def cases(kind: str) -> list[str]:
    """The names of the folders of one kind of fault, each a case."""
    return sorted(path.name for path in (_HERE / kind).iterdir() if path.is_dir() and path.name != "__pycache__")


def expected(*case: str) -> dict[str, Any]:
    """The content of a case's file, by the names of its folders."""
    return tomllib.loads(_HERE.joinpath(*case, "expected.toml").read_text())
