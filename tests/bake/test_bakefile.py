"""The bake file: what it declares, and that buildspec.bakefile reads what Bake reads."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from buildspec import bakefile
from tests.bake.support import DEFAULTS, EVERY, Bake


def test_variables_are_the_seed_pages_in_its_order(declared: bakefile.BakeFile) -> None:
    assert [(variable.name, variable.default) for variable in declared.variables.values()] == list(DEFAULTS.items())


def test_reader_and_bake_agree_on_every_variable(declared: bakefile.BakeFile, bake: Bake) -> None:
    listed = bake.run("--list=type=variables,format=json")
    assert listed.returncode == 0, listed.stderr
    # Bake leaves an empty value out of its answer in some versions.
    by_bake = {entry["name"]: (entry.get("value", ""), entry["description"]) for entry in json.loads(listed.stdout)}
    by_reader = {variable.name: (variable.default, variable.description) for variable in declared.variables.values()}
    assert by_reader == by_bake


def test_every_description_says_what_empty_means(declared: bakefile.BakeFile) -> None:
    silent = [v.name for v in declared.variables.values() if not re.search(r"\bempty\b", v.description, re.IGNORECASE)]
    assert silent == []


def test_reader_and_bake_agree_on_targets_and_groups(declared: bakefile.BakeFile, bake: Bake) -> None:
    listed = bake.run("--list=type=targets,format=json")
    assert listed.returncode == 0, listed.stderr
    by_bake = {entry["name"] for entry in json.loads(listed.stdout)}
    targets = {name for name, target in declared.targets.items() if not target.is_abstract}
    assert targets == EVERY
    assert targets | declared.groups.keys() == by_bake


def test_the_secret_is_given_on_the_command_line(bake: Bake, tmp_path: Path) -> None:
    source = tmp_path / "aws"
    source.touch()
    printed = bake.run("--print", f"--set=*.secrets=id=aws,src={source}", "cache-probe")
    assert printed.returncode == 0, printed.stderr
    assert json.loads(printed.stdout)["target"]["cache-probe"]["secret"] == [{"id": "aws", "src": str(source)}]


def test_dockerfile_takes_every_argument_that_bake_passes(bake: Bake, checkout: Path) -> None:
    for name in sorted(EVERY):
        target = bake.target(name)
        dockerfile = (checkout / "docker" / target["dockerfile"]).read_text()
        taken = set(re.findall(r"^ARG (\w+)$", dockerfile, re.MULTILINE))
        # BuildKit itself takes these, whether or not a step does, or buildx.
        itself = {"SOURCE_DATE_EPOCH", "BUILDKIT_BUILD_NAME", "BUILDKIT_DOCKERFILE_CHECK"}
        assert taken - itself == set(target["args"]) - itself


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'variable "A" {\n  default = \n}\n',
            r":2: not valid HCL: unexpected input at column \d+",
        ),
        (
            'variable "A" {\n  default = "x"\n',
            r":\d: not valid HCL: unexpected input at column \d+",
        ),
        (
            'variable "A" {\n  default = "2.15\\q0"\n  description = "d"\n}\n',
            r": variable A: default is \"2\.15\\q0\": Invalid \\escape at column 6",
        ),
        ("known = 5\n", ": known is 5; write it as an object, in braces"),
        ("known = {\n  default = 3\n}\n", ": known: default is 3; write it as an object, in braces"),
        (
            'variable "A" {\n  default = true\n  description = "d"\n}\n',
            ": variable A: default is True; write it as a literal string in double quotes",
        ),
        (
            'variable "A" {\n  default = "${B}"\n  description = "d"\n}\n',
            r": variable A: default is \"\$\{B\}\"; write it as a literal string in double quotes",
        ),
        (
            'known = {\n  default = {\n    A = "x"\n  }\n}\n'
            'variable "A" {\n  default = known.default.B\n  description = "d"\n}\n',
            r": variable A: default is \$\{known.default.B\}; write it as a literal string in double quotes",
        ),
        (
            'known = {\n  default = {\n    A = "x"\n  }\n}\nvariable "A" {\n  default = "y"\n  description = "d"\n}\n',
            ": known.default has A, which no variable A has as its default; write that as known.default.A",
        ),
        (
            'variable "A" {\n  default = known.default.A\n  description = "d"\n}\n',
            ": variable A: known.default: A is missing; write it as a literal string in double quotes",
        ),
        (
            'variable "A" {\n  default = ""\n}\n',
            ": variable A: description is missing; write it as a literal string in double quotes",
        ),
        (
            'variable "A" {\n  default = ""\n  description = "d"\n}\n' * 2,
            ": variable A is declared a second time; keep one of the two",
        ),
        (
            'target "t" {\n  inherits = [x]\n}\n',
            ": target t: inherits is .*; write it as a list of literal",
        ),
        (
            'target "a" "b" {\n  inherits = []\n}\n',
            ": a target block has one name, in double quotes",
        ),
    ],
)
def test_reader_refuses(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "some-bake.hcl"
    path.write_text(text)
    with pytest.raises(bakefile.BakeFileError) as refused:
        bakefile.load(path)
    assert re.fullmatch(re.escape(str(path)) + message + ".*", str(refused.value))


def test_reader_refuses_what_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "some-bake.hcl"
    path.write_bytes(b"# one\n# tw\xf6\n")
    with pytest.raises(bakefile.BakeFileError) as refused:
        bakefile.load(path)
    assert str(refused.value) == f"{path}:2: not UTF-8: byte 0xf6"


def test_reader_finds_defaults_in_their_table(tmp_path: Path) -> None:
    path = tmp_path / "some-bake.hcl"
    path.write_text(
        'known = {\n  other = upper("x")\n  default = {\n    A = "x"\n  }\n}\n'
        'variable "A" {\n  default = known.default.A\n  description = "d"\n}\n'
    )
    assert bakefile.load(path).variables == {"A": bakefile.Variable("A", default="x", description="d")}


def test_reader_reads_groups_and_escapes(tmp_path: Path) -> None:
    path = tmp_path / "some-bake.hcl"
    path.write_text(
        'group "default" {\n  targets = ["a", "b"]\n}\n'
        'variable "A" {\n  default = "say \\"x\\""\n  description = "d"\n}\n'
    )
    assert bakefile.load(path) == bakefile.BakeFile(
        variables={"A": bakefile.Variable("A", default='say "x"', description="d")},
        targets={},
        groups={"default": ("a", "b")},
    )
