"""The status file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from buildspec.box import status
from buildspec.box.status import StatusFile
from tests.box.support import INSTANCE, box_config


def test_new_status_has_exactly_the_agreed_fields() -> None:
    new = status.new(box_config(), INSTANCE)
    assert new["startedAt"] == new["updatedAt"]
    assert {**new, "startedAt": "", "updatedAt": ""} == {
        "runId": f"dev-{INSTANCE}",
        "instanceId": INSTANCE,
        "state": "running",
        "phase": "start",
        "startedAt": "",
        "updatedAt": "",
        "endedAt": None,
        "exitCode": None,
        "failingStep": None,
        "lastLines": [],
        "cache": None,
        "images": {},
        "phases": [],
        "warnings": [],
    }


def test_update_changes_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    state = StatusFile(tmp_path / "lib/status.json")
    new = status.new(box_config(), INSTANCE)
    state.write(new)
    updated = state.update({"phase": "build", "images": {"a": "sha256:1"}})
    assert updated == {
        **new,
        "phase": "build",
        "images": {"a": "sha256:1"},
        "updatedAt": updated["updatedAt"],
    }
    assert json.loads((tmp_path / "lib/status.json").read_text()) == updated
    assert [path.name for path in (tmp_path / "lib").iterdir()] == ["status.json"]


def test_unknown_field_is_refused(tmp_path: Path) -> None:
    state = StatusFile(tmp_path / "status.json")
    state.write(status.new(box_config(), INSTANCE))
    with pytest.raises(KeyError, match=r"no field .*'fase'"):
        state.update({"fase": "build"})
