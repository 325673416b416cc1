"""docs/rehearsal-rules.md shows the rules as they are, and the tests that it names exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rehearsal import rules_page
from rehearsal.cloud.rules import EVERY_RULE, RULES

TESTS = Path(__file__).parent


def test_the_page_in_the_repository_is_up_to_date() -> None:
    assert rules_page.main(["--check"]) == 0


def test_every_rule_has_a_row() -> None:
    """With a test of its own."""
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| `(\S+)` \|", rules_page.page(), re.MULTILINE)
    assert [name for name, _ in rows] == [rule.name for rule in EVERY_RULE]
    assert all(name in test for name, test in rows)


def test_the_tests_that_it_names_exist() -> None:
    named = set(re.findall(r"(\w+\.py::\w+(?:\[\w+\])?)`", rules_page.page()))
    assert len(named) > len(RULES) + 5
    files = sorted({str(TESTS / name.split("::", 1)[0]) for name in named})
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "--quiet", *files],
        cwd=TESTS.parents[1],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    ids = set(re.findall(r"^tests/rehearsal/(\S+)$", collected, re.MULTILINE))
    assert named - ids - {name.split("[", 1)[0] for name in ids} == set()


def test_check_fails_on_another_page_and_on_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "docs" / "rehearsal-rules.md"
    assert rules_page.main(["--check"], page) == 1
    assert rules_page.main([], page) == 0
    assert rules_page.main(["--check"], page) == 0
    page.write_text(page.read_text().replace("16,384", "16,000", 1))
    assert rules_page.main(["--check"], page) == 1
    assert "run: make docs" in capsys.readouterr().err
