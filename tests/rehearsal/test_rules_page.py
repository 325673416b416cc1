"""docs/rehearsal-rules.md shows the rules as they are, and the tests that it names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rehearsal import rules_page
from rehearsal.cloud.rules import EVERY_RULE

TESTS = Path(__file__).parent


def test_the_page_in_the_repository_is_up_to_date() -> None:
    assert rules_page.main(["--check"]) == 0


def test_every_rule_has_a_row() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", rules_page.page(), re.MULTILINE)
    assert rows == [rule.name for rule in EVERY_RULE]


def test_the_tests_that_it_names_exist() -> None:
    named = set(re.findall(r"(\w+\.py)::(\w+)", rules_page.page()))
    assert len(named) > 5
    for file, function in named:
        assert f"def {function}(" in (TESTS / file).read_text(), function


def test_check_fails_on_another_page_and_on_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "docs" / "rehearsal-rules.md"
    assert rules_page.main(["--check"], page) == 1
    assert rules_page.main([], page) == 0
    assert rules_page.main(["--check"], page) == 0
    page.write_text(page.read_text().replace("16,384", "16,000", 1))
    assert rules_page.main(["--check"], page) == 1
    assert "run: python -m rehearsal.rules_page" in capsys.readouterr().err
