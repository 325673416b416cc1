"""docs/iam.md shows what infra/iam.py says, and --check notices when it does not."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from infra import iam, iam_page
from infra.naming import Names


def test_the_page_in_the_repository_is_up_to_date() -> None:
    assert iam_page.main(["--check"]) == 0


def test_the_page_has_every_document_whole() -> None:
    names = Names("foundation", "111122223333", "us-east-1")
    shown = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", iam_page.page(), re.DOTALL)]
    assert shown == [
        iam.box_role_trust(),
        iam.box_role_policy(names),
        iam.cache_role_trust(names, ["arn:aws:iam::111122223333:role/ci"]),
        iam.cache_role_policy(names, "rocm-pytorch"),
        iam.session_policy(names.bucket, "rocm-pytorch", "vpce-0123456789abcdef0"),
        iam.bucket_policy(names),
    ]


def test_check_fails_on_another_page_and_on_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "docs" / "iam.md"
    assert iam_page.main(["--check"], page) == 1
    assert iam_page.main([], page) == 0
    assert iam_page.main(["--check"], page) == 0
    page.write_text(page.read_text().replace("s3:PutObject", "s3:PutObjectAcl", 1))
    assert iam_page.main(["--check"], page) == 1
    assert "run: make docs" in capsys.readouterr().err
