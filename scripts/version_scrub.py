"""Writes what the documentation says of rocm-bake.hcl: tables of variables, their number, single defaults.

python -m scripts.version_scrub           writes it
python -m scripts.version_scrub --check   ends with 1 when a page has something else

A page has places for it, `<!-- scrub WHAT -->...<!-- /scrub -->`, where WHAT is one of
    count           the number of variables
    default NAME    the default of one
    table SECTION   name, default and meaning of the variables under the comment `# --- SECTION ---` of rocm-bake.hcl
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from buildspec import bakefile

CHECKOUT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "docs/*.md")
TABLES_PAGE = "docs/bake-variables.md"
MENDED_BY = "make version-scrub"

_PLACE = re.compile(r"(?P<begin><!-- scrub (?P<what>.+?) -->)(?P<body>.*?)(?P<end><!-- /scrub -->)", re.DOTALL)
_SECTION = re.compile(r'^# --- (?P<section>.+?) -+$|^variable "(?P<variable>\w+)"', re.MULTILINE)


class PlaceError(ValueError):
    """A page asks for something that rocm-bake.hcl does not have, or lacks a table; one line, with page and line."""


@dataclass(frozen=True)
class Facts:
    """What pages can say: the variables, and their names by section of rocm-bake.hcl."""

    variables: dict[str, bakefile.Variable]
    sections: dict[str, tuple[str, ...]]

    def text(self, what: str) -> str:
        """What belongs between the comments of a place.

        :raises KeyError: there is no such thing
        """
        kind, _, name = what.partition(" ")
        match kind:
            case "count" if not name:
                return str(len(self.variables))
            case "default":
                return f"`{self.variables[name].default}`"
            case "table":
                return f"\n{self._table(name)}\n"
        raise KeyError(what)

    def _table(self, section: str) -> str:
        rows = [self.variables[name] for name in self.sections[section]]
        lines = [f"| `{row.name}` | {_code(row.default)} | {_cell(row.description)} |" for row in rows]
        return "\n".join(["| Variable | Default | |", "|---|---|---|", *lines])


def _code(default: str) -> str:
    return f"`{_cell(default)}`" if default else '`""`'


def _cell(text: str) -> str:
    # A bar would end the cell, within a code span as well.
    return text.replace("|", r"\|")


def facts(bake_file: Path) -> Facts:
    """Read the bake file.

    :raises bakefile.BakeFileError: it cannot be read
    """
    variables = bakefile.load(bake_file).variables
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for found in _SECTION.finditer(bake_file.read_text(encoding="utf-8")):
        if found["section"] is not None:
            current = sections.setdefault(found["section"], [])
        else:
            current.append(found["variable"])
    return Facts(variables, {section: tuple(names) for section, names in sections.items() if names})


def scrubbed(page: str, text: str, known: Facts) -> str:
    """The page's text with every place filled.

    :raises PlaceError: a place asks for something that is not there
    """

    def fill(found: re.Match[str]) -> str:
        try:
            return found["begin"] + known.text(found["what"]) + found["end"]
        except KeyError as error:
            line = text.count("\n", 0, found.start()) + 1
            raise PlaceError(
                f"{page}:{line}: scrub {found['what']}: rocm-bake.hcl has no {error}; places are count, default NAME "
                f"and table SECTION, of {', '.join(known.sections)}"
            ) from error

    filled = _PLACE.sub(fill, text)
    if page == TABLES_PAGE:
        shown = {found["what"] for found in _PLACE.finditer(text)}
        missing = [section for section in known.sections if f"table {section}" not in shown]
        if missing:
            raise PlaceError(
                f"{page}: has no table of {', '.join(missing)}; "
                f"add a line: <!-- scrub table {missing[0]} --><!-- /scrub -->"
            )
    return filled


def main(arguments: Sequence[str], checkout: Path = CHECKOUT) -> int:
    """Write the pages, or with `--check` compare them; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m scripts.version_scrub", description="Fill the pages' places.")
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 when a page is out of date")
    check = parser.parse_args(arguments).check
    outdated = False
    try:
        known = facts(checkout / "rocm-bake.hcl")
        for path in sorted(path for pattern in PAGES for path in checkout.glob(pattern)):
            page = path.relative_to(checkout).as_posix()
            text = path.read_text(encoding="utf-8")
            new = scrubbed(page, text, known)
            if new == text:
                continue
            if check:
                outdated = True
                print(f"{page}: out of date with rocm-bake.hcl; run: {MENDED_BY}", file=sys.stderr)
            else:
                path.write_text(new, encoding="utf-8")
    except (PlaceError, bakefile.BakeFileError) as error:
        print(error, file=sys.stderr)
        return 1
    return 1 if outdated else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
