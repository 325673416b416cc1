"""Reads a CodeBuild build specification, format 0.2: the part of it that the runner carries out.

The format: https://docs.aws.amazon.com/codebuild/latest/userguide/build-spec-ref.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

PHASES = ("install", "pre_build", "build", "post_build")


class SpecError(ValueError):
    """The build specification cannot be carried out; the message says where, what, and what is supported."""


@dataclass(frozen=True)
class Phase:
    """One phase: its commands, those that run whatever became of them, and what its failure means."""

    name: str
    commands: tuple[str, ...]
    finally_commands: tuple[str, ...] = ()
    on_failure: Literal["ABORT", "CONTINUE"] | None = None
    """None: CodeBuild's own order, in which post_build follows a failed build and nothing follows another
    failed phase."""


@dataclass(frozen=True)
class BuildSpec:
    """The phases present, in their order, and the environment they start with."""

    variables: Mapping[str, str]
    phases: tuple[Phase, ...]


def load(path: Path) -> BuildSpec:
    """Read the file.

    Raises:
        SpecError: not YAML, a key that is not supported, or a value that is not allowed.
        OSError: the file cannot be read.
    """
    return parse(path.read_text(encoding="utf-8"))


def parse(text: str) -> BuildSpec:
    """Read a build specification's text.

    Raises:
        SpecError: see :func:`load`.
    """
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SpecError(f"the build specification is not YAML: {error}") from error
    top = _mapping("the build specification", document, required={"version", "env", "phases"}, optional=set())
    if str(top["version"]) != "0.2":
        raise SpecError(f"version: {top['version']!r} is not supported; write 0.2")
    env = _mapping("env", top["env"], required={"shell"}, optional={"variables"})
    if env["shell"] != "bash":
        raise SpecError(f"env.shell: {env['shell']!r} is not supported; write bash")
    variables = env.get("variables", {})
    if not isinstance(variables, dict):
        raise SpecError(f"env.variables: {variables!r} is not a mapping of names to strings")
    for name, value in variables.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise SpecError(f"env.variables.{name}: {value!r} is not a string; put it in quotes")
    phases = _mapping("phases", top["phases"], required=set(), optional=set(PHASES))
    return BuildSpec(variables, tuple(_phase(name, phases[name]) for name in PHASES if name in phases))


def _phase(name: str, value: object) -> Phase:
    where = f"phases.{name}"
    phase = _mapping(where, value, required={"commands"}, optional={"finally", "on-failure"})
    on_failure = phase.get("on-failure")
    if on_failure not in (None, "ABORT", "CONTINUE"):
        raise SpecError(f"{where}.on-failure: {on_failure!r} is not supported; write ABORT or CONTINUE")
    finally_commands = _commands(f"{where}.finally", phase["finally"]) if "finally" in phase else ()
    return Phase(name, _commands(f"{where}.commands", phase["commands"]), finally_commands, on_failure)


def _commands(where: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(command, str) for command in value):
        raise SpecError(f"{where}: {value!r} is not a list of at least one command, each a string")
    return tuple(value)


def _mapping(where: str, value: object, *, required: set[str], optional: set[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SpecError(f"{where}: {value!r} is not a mapping")
    unknown = sorted(str(key) for key in value.keys() - required - optional)
    missing = sorted(required - value.keys())
    if unknown or missing:
        supported = sorted(required | optional)
        raise SpecError(f"{where}: keys not supported {unknown}, keys missing {missing}; supported are {supported}")
    return value
