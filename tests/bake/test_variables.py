"""Each bake variable does what its description says and nothing else, and every use of it in the bake file matters."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from buildspec import bakefile
from tests.bake.effects import EFFECTS, REFUSALS, Effect, Refusal
from tests.bake.support import DEFAULTS, Bake


def name_of(case: Effect | Refusal) -> str:
    return ",".join(f"{name}={value}" for name, value in case.variables.items())


Expected = Callable[[Effect], dict[str, str]]


@pytest.fixture(scope="module")
def expected(bake: Bake) -> Expected:
    """All that Bake is to print when an effect's variables are set."""

    @functools.cache
    def before(*given: tuple[str, str]) -> dict[str, str]:
        return bake.flat(**dict(given))

    def after(effect: Effect) -> dict[str, str]:
        values: dict[str, str | None] = {**before(*effect.given.items()), **effect.changes}
        return {path: value for path, value in values.items() if value is not None}

    return after


def message(bake: Bake, refusal: Refusal) -> str:
    refused = bake.run("--print", "rocm", **refusal.variables)
    return refused.stderr if refused.returncode else ""


@pytest.mark.parametrize("effect", EFFECTS, ids=name_of)
def test_effect(bake: Bake, expected: Expected, effect: Effect) -> None:
    assert bake.flat(**effect.given, **effect.variables) == expected(effect)


@pytest.mark.parametrize("refusal", REFUSALS, ids=name_of)
def test_refusal(bake: Bake, refusal: Refusal) -> None:
    assert refusal.message in message(bake, refusal)


def test_every_variable_has_an_effect() -> None:
    assert {name for effect in EFFECTS if effect.changes for name in effect.variables} == DEFAULTS.keys()


@pytest.mark.parametrize("name", DEFAULTS)
def test_set_but_empty_is_unset(bake: Bake, expected: Expected, name: str) -> None:
    assert bake.flat(**{name: ""}) == expected(Effect({name: ""}, {}))


def test_all_set_but_empty_is_unset(bake: Bake, expected: Expected) -> None:
    empty = dict.fromkeys(DEFAULTS, "")
    assert bake.flat(**empty) == expected(Effect(empty, {}))


def expressions(text: str) -> str:
    """Blank out what is no expression: comments, and strings but for their templates."""
    shown: list[str] = []
    closers: list[str] = []  # of the templates and strings that are open
    position = 0
    while position < len(text):
        in_string = bool(closers) and closers[-1] == '"'
        token = text[position]
        if in_string and token == "\\":
            shown.append("  ")
            position += 2
            continue
        if in_string and text.startswith("${", position):
            closers.append("}")
            token = "${"
        elif token == '"' and in_string:
            closers.pop()
        elif token == '"':
            closers.append('"')
        elif not in_string and token == "{":
            closers.append("}")
        elif not in_string and token == "}":
            closers.pop()
        elif token == "#" and not in_string:
            token = text[position : text.index("\n", position)]
            shown.append(" " * len(token))
            position += len(token)
            continue
        elif in_string:
            token = "\n" if token == "\n" else " "
        shown.append(token)
        position += len(token)
    assert closers == []
    return "".join(shown)


def without_one_use(text: str, variable: bakefile.Variable) -> Iterator[tuple[int, str]]:
    """The bake file with the default in place of the variable, at one place each time; and the place's line."""
    use = re.compile(rf"(?<![\w.])(effective\.)?{variable.name}\b(?!\s*=[^=])")
    for match in use.finditer(expressions(text)):
        line = text.count("\n", 0, match.start()) + 1
        yield line, text[: match.start()] + json.dumps(variable.default) + text[match.end() :]


@pytest.mark.parametrize("name", DEFAULTS)
def test_every_use_of_a_variable_is_needed(
    bake: Bake, checkout: Path, declared: bakefile.BakeFile, expected: Expected, tmp_path: Path, name: str
) -> None:
    text = (checkout / "rocm-bake.hcl").read_text()
    refusals = [case for case in REFUSALS if name in case.variables]
    effects = [Effect({name: ""}, {}), *(case for case in EFFECTS if name in case.variables | case.given)]
    mutant = tmp_path / "rocm-bake.hcl"
    lines, survivors = [], []
    for number, mutated in without_one_use(text, declared.variables[name]):
        mutant.write_text(mutated)
        line = text.splitlines()[number - 1].strip()
        # What is likelier to notice goes first: nothing else runs then.
        validates = line.startswith(("condition", "error_message"))
        cases: list[Effect | Refusal] = [*refusals, *effects] if validates else [*reversed(effects), *refusals]
        lines.append(number)
        if all(unnoticed(bake.of(mutant), case, expected) for case in cases):
            survivors.append(f"{number}: {line}")
    assert lines
    assert survivors == []


def unnoticed(bake: Bake, case: Effect | Refusal, expected: Expected) -> bool:
    if isinstance(case, Refusal):
        return case.message in message(bake, case)
    try:
        return bake.flat(**case.given, **case.variables) == expected(case)
    except AssertionError:
        return False  # refused
