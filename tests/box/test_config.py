"""The box's configuration file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from buildspec.box.config import BoxConfig, ConfigError
from tests.box.support import INSTANCE, box_config


def test_reads_what_it_wrote() -> None:
    config = box_config(keep_box=True, targets=("a", "b"))
    assert BoxConfig.from_json(config.to_json()) == config


def test_file_has_exactly_the_agreed_keys() -> None:
    assert set(json.loads(box_config().to_json())) == {
        "stack",
        "region",
        "bucket",
        "cachePrefix",
        "context",
        "cacheRoleArn",
        "sessionPolicy",
        "logGroup",
        "targets",
        "bakeVariables",
        "keepBox",
        "maxLifetimeHours",
    }


def test_names_of_a_build() -> None:
    config = box_config(stack="alice")
    assert config.run_id(INSTANCE) == f"alice-{INSTANCE}"
    assert config.build_key(INSTANCE, "status.json") == f"builds/alice/{INSTANCE}/status.json"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("maxLifetimeHours", True, "maxLifetimeHours: True is of type bool; int is needed"),
        ("maxLifetimeHours", "12", "maxLifetimeHours: '12' is of type str; int is needed"),
        ("targets", "all", "targets: 'all' is of type str; list is needed"),
        ("targets", [1], "targets: 1 is of type int; str is needed"),
        ("bakeVariables", {"MAX_JOBS": 4}, "MAX_JOBS: 4 is of type int; str is needed"),
        ("context", {"key": "k"}, r"context: missing keys \['sha256'\], unknown keys \[\]"),
        ("shell", "ssm", r"missing keys \[\], unknown keys \['shell'\]"),
    ],
)
def test_wrong_values_are_named(key: str, value: Any, message: str) -> None:
    document = {**json.loads(box_config().to_json()), key: value}
    with pytest.raises(ConfigError, match=message):
        BoxConfig.from_json(json.dumps(document))


@pytest.mark.parametrize(("text", "message"), [("{", "is not JSON"), ("[]", "must be a JSON object, not list")])
def test_no_object(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        BoxConfig.from_json(text)
