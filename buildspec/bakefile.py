"""What rocm-bake.hcl declares, read without docker.

``docker buildx bake --list`` is the judge of what the file means; this reader exists for the places that have no
buildx (settings, documentation, the Makefile) and is held against it by a test. It therefore takes only what the file's
own rules allow: for every variable a description, and as its default a literal string or its own entry in the file's
``known.default``. It refuses the rest instead of guessing what Bake would make of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hcl2
from lark.exceptions import UnexpectedInput


class BakeFileError(ValueError):
    """The bake file cannot be read: one line with file, line or block, what is wrong and what is expected."""


@dataclass(frozen=True)
class Variable:
    """A bake variable. ``default`` is its value when the environment has none or an empty one."""

    name: str
    default: str
    description: str


@dataclass(frozen=True)
class Target:
    """A bake target. ``inherits`` names the targets whose attributes it starts from, later ones winning."""

    name: str
    inherits: tuple[str, ...]

    @property
    def is_abstract(self) -> bool:
        """Whether the target exists only to be inherited from, its name beginning with an underscore."""
        return self.name.startswith("_")


@dataclass(frozen=True)
class BakeFile:
    """Variables, targets and groups (name to target names) by name, each in the order of the file."""

    variables: dict[str, Variable]
    targets: dict[str, Target]
    groups: dict[str, tuple[str, ...]]


def load(path: Path) -> BakeFile:
    """Read a bake file.

    Takes some two seconds the first time, for python-hcl2's grammar.

    :raises BakeFileError: wrong syntax, a name declared twice, a variable without a description or with a default that
        is neither a literal string nor its own in ``known.default``, or an entry there that no variable takes
    :raises OSError: the file cannot be read
    """
    content = path.read_bytes()
    try:
        # python-hcl2 quotes names and strings as the file does, and evaluates nothing.
        document = hcl2.loads(
            content.decode("utf-8"), serialization_options=hcl2.SerializationOptions(with_comments=False)
        )
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise BakeFileError(f"{path}:{line}: not UTF-8: byte 0x{content[error.start]:02x}") from error
    except UnexpectedInput as error:
        raise BakeFileError(f"{path}:{error.line}: not valid HCL: unexpected input at column {error.column}") from error

    defaults = _object(_object(document, "known", str(path)), "default", f"{path}: known")
    variables = {
        name: Variable(
            name,
            default=_default(name, body, defaults, where),
            description=_string(body, "description", where),
        )
        for name, body, where in _blocks(document, "variable", path)
    }
    # Bake would set the variable's default aside when it is empty, and take this one when it is set but empty.
    for name in defaults:
        if name not in variables or variables[name].default != _string(defaults, name, f"{path}: known.default"):
            raise BakeFileError(
                f"{path}: known.default has {name}, which no variable {name} has as its default; "
                f"write that as known.default.{name}"
            )
    targets = {
        name: Target(name, inherits=_strings(body, "inherits", where))
        for name, body, where in _blocks(document, "target", path)
    }
    groups = {name: _strings(body, "targets", where) for name, body, where in _blocks(document, "group", path)}
    return BakeFile(variables, targets, groups)


def _blocks(document: dict[str, Any], kind: str, path: Path) -> list[tuple[str, dict[str, Any], str]]:
    blocks: list[tuple[str, dict[str, Any], str]] = []
    seen: set[str] = set()
    for block in document.get(kind, []):
        label, body = next(iter(block.items()))
        if not (len(block) == 1 and label.startswith('"') and isinstance(body, dict) and "__is_block__" in body):
            raise BakeFileError(f"{path}: a {kind} block has one name, in double quotes")
        name = _unquote(label, f"{path}: {kind}")
        where = f"{path}: {kind} {name}"
        if name in seen:
            raise BakeFileError(f"{where} is declared a second time; keep one of the two")
        seen.add(name)
        blocks.append((name, body, where))
    return blocks


def _default(name: str, body: dict[str, Any], defaults: dict[str, Any], where: str) -> str:
    if body.get("default") == f"${{known.default.{name}}}":
        return _string(defaults, name, f"{where}: known.default")
    return _string(body, "default", where)


def _object(body: dict[str, Any], attribute: str, where: str) -> dict[str, Any]:
    value = body.get(attribute, {})
    if not isinstance(value, dict):
        raise BakeFileError(f"{where}: {attribute} is {value}; write it as an object, in braces")
    return value


def _string(body: dict[str, Any], attribute: str, where: str) -> str:
    value = body.get(attribute)
    if not isinstance(value, str) or not value.startswith('"') or "${" in value or "%{" in value:
        found = "is missing" if value is None else f"is {value}"
        raise BakeFileError(f"{where}: {attribute} {found}; write it as a literal string in double quotes")
    return _unquote(value, f"{where}: {attribute}")


def _strings(body: dict[str, Any], attribute: str, where: str) -> tuple[str, ...]:
    value = body.get(attribute, [])
    if not isinstance(value, list) or not all(isinstance(item, str) and item.startswith('"') for item in value):
        raise BakeFileError(f"{where}: {attribute} is {value}; write it as a list of literal strings")
    return tuple(_unquote(item, f"{where}: {attribute}") for item in value)


def _unquote(literal: str, where: str) -> str:
    try:
        # HCL's escapes in a string without templates are JSON's.
        return str(json.loads(literal))
    except json.JSONDecodeError as error:
        raise BakeFileError(f"{where} is {literal}: {error.msg} at column {error.colno}") from error
