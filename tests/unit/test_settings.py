"""Settings: what a stack gets, and what it is told when they are wrong."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest
import yaml

from buildspec.bakefile import BakeFile, load
from infra.settings import (
    BOX_KEYS,
    CHECKOUT,
    FOUNDATION_KEYS,
    BoxSettings,
    FoundationSettings,
    Problem,
    SettingsError,
    parse,
    read,
)

ACCOUNT = "123456789012"


@pytest.fixture(scope="module")
def bake() -> BakeFile:
    return load(CHECKOUT / "rocm-bake.hcl")


def problems(bake: BakeFile, **raw: Any) -> dict[str, Problem]:
    """Return what is wrong with settings, given as YAML would give them, by key."""
    delivered = {key: value if isinstance(value, str) else json.dumps(value) for key, value in raw.items()}
    with pytest.raises(SettingsError) as error:
        parse(delivered, bake)
    found = {problem.key: problem for problem in error.value.problems}
    assert len(found) == len(error.value.problems)
    assert all(problem.allowed and problem.fix for problem in found.values())
    assert all(key in str(error.value) for key in found)
    return found


def test_defaults_of_a_box(bake: BakeFile) -> None:
    assert parse({"layer": "box"}, bake) == BoxSettings(
        foundation_stack="foundation",
        instance_type="m7a.8xlarge",
        volume_gib=500,
        ami=None,
        targets=("cache-probe",),
        bake_variables={},
        rocm_architectures=("gfx950",),
        max_lifetime_hours=12,
        keep_box=False,
        require_gpu=False,
    )


def test_defaults_of_a_foundation(bake: BakeFile) -> None:
    assert parse({"layer": "foundation"}, bake) == FoundationSettings(
        cache_prefix="rocm-pytorch", cache_role_principals=(), protect=True
    )


def test_every_setting_of_a_box(bake: BakeFile) -> None:
    raw = {
        "layer": "box",
        "foundationStack": "team.a",
        "instanceType": "r7a.48xlarge",
        "volumeGiB": "30",
        "ami": "ami-0123456789abcdef0",
        "targets": '["sccache", "cache-probe"]',
        "bakeVariables": '{"MAX_JOBS": 8, "FORCE_RECACHE": true, "PYTORCH_ROCM_ARCH": "gfx942; gfx950"}',
        "maxLifetimeHours": "1",
        "keepBox": "true",
        "requireGpu": "true",
    }
    assert parse(raw, bake) == BoxSettings(
        foundation_stack="team.a",
        instance_type="r7a.48xlarge",
        volume_gib=30,
        ami="ami-0123456789abcdef0",
        targets=("sccache", "cache-probe"),
        bake_variables={"MAX_JOBS": "8", "FORCE_RECACHE": "true", "PYTORCH_ROCM_ARCH": "gfx942; gfx950"},
        rocm_architectures=("gfx942", "gfx950"),
        max_lifetime_hours=1,
        keep_box=True,
        require_gpu=True,
    )


def test_every_setting_of_a_foundation(bake: BakeFile) -> None:
    principals = [f"arn:aws:iam::{ACCOUNT}:role/a/ci", f"arn:aws:iam::{ACCOUNT}:user/me@example.com"]
    raw = {
        "layer": "foundation",
        "bakeVariables": '{"SCCACHE_S3_KEY_PREFIX": "team/rocm-10.1"}',
        "cacheRolePrincipals": json.dumps(principals),
        "protect": "false",
    }
    assert parse(raw, bake) == FoundationSettings("team/rocm-10.1", tuple(principals), False)


def test_schema_has_exactly_the_settings_and_describes_each() -> None:
    schema = yaml.safe_load((CHECKOUT / "Pulumi.yaml").read_text())["config"]
    assert schema.keys() == FOUNDATION_KEYS | BOX_KEYS
    assert [key for key, entry in schema.items() if not entry.get("description")] == []
    # A key without a default is asked of every stack, of either layer.
    assert [key for key, entry in schema.items() if "default" not in entry] == ["layer"]


def test_all_problems_come_at_once(bake: BakeFile) -> None:
    found = problems(
        bake,
        layer="box",
        volumeGiB="7",
        maxLifetimeHours="13",
        instanceType="big",
        ami="ami-xyz",
        keepBox="yes",
        requireGpu="1",
        foundationStack="org/project/stack",
        targets=["cache-prob", "_common", "cache-probe", "cache-probe", 3],
        bakeVariables={"MAX_JOB": 1},
        protectt="true",
    )
    assert found.keys() == {
        "volumeGiB",
        "maxLifetimeHours",
        "instanceType",
        "ami",
        "keepBox",
        "requireGpu",
        "foundationStack",
        "targets[0]",
        "targets[1]",
        "targets[3]",
        "targets[4]",
        "bakeVariables.MAX_JOB",
        "protectt",
    }


@pytest.mark.parametrize(
    ("key", "raw", "suggestion"),
    [
        ("protectt", {"protectt": "true"}, "did you mean protect?"),
        ("volumegib", {"volumegib": "9"}, "did you mean volumeGiB?"),
        ("targets[0]", {"targets": ["cache-prob"]}, "did you mean cache-probe?"),
        ("bakeVariables.MAXJOBS", {"bakeVariables": {"MAXJOBS": "9"}}, "did you mean MAX_JOBS?"),
        ("bakeVariables.max_jobs", {"bakeVariables": {"max_jobs": "9"}}, "did you mean MAX_JOBS?"),
    ],
)
def test_a_misspelling_is_answered_with_what_was_meant(
    bake: BakeFile, key: str, raw: dict[str, Any], suggestion: str
) -> None:
    assert suggestion in problems(bake, layer="box", **raw)[key].fix


def test_the_text_says_key_value_allowed_and_fix(bake: BakeFile) -> None:
    with pytest.raises(SettingsError) as error:
        parse({"layer": "box", "volumeGiB": "7"}, bake)
    assert str(error.value) == (
        "1 setting is wrong:\n"
        '  volumeGiB: "7"\n'
        "    allowed: a whole number of GiB, 30 to 16384\n"
        "    fix: pulumi config set rocm-build-box:volumeGiB <number>"
    )


@pytest.mark.parametrize("layer", [None, "", "Box", "boxes"])
def test_layer_is_asked_for(bake: BakeFile, layer: str | None) -> None:
    found = problems(bake, **({} if layer is None else {"layer": layer}))
    assert found["layer"].allowed == "foundation or box"


@pytest.mark.parametrize(
    ("layer", "key", "value"),
    [
        ("box", "protect", "false"),
        ("box", "cacheRolePrincipals", [f"arn:aws:iam::{ACCOUNT}:role/ci"]),
        ("foundation", "instanceType", "m7a.24xlarge"),
        ("foundation", "targets", ["sccache"]),
        ("foundation", "keepBox", "true"),
    ],
)
def test_a_setting_of_the_other_layer_is_refused(bake: BakeFile, layer: str, key: str, value: Any) -> None:
    assert problems(bake, layer=layer, **{key: value}).keys() == {key}


def test_defaults_of_the_other_layer_come_from_the_engine_and_are_fine(bake: BakeFile) -> None:
    assert parse({"layer": "box", "protect": "true", "cacheRolePrincipals": "[]"}, bake)


@pytest.mark.parametrize("name", ["SCCACHE_REGION", "SCCACHE_S3_KEY_PREFIX", "VCS_REF", "BUILD_DATE", "RUN_ID"])
def test_what_the_box_sets_itself_is_refused(bake: BakeFile, name: str) -> None:
    found = problems(bake, layer="box", bakeVariables={name: "x"})
    assert found[f"bakeVariables.{name}"].allowed.startswith("no value in a box stack: ")


def test_a_bucket_without_a_region_names_both(bake: BakeFile) -> None:
    found = problems(bake, layer="box", bakeVariables={"SCCACHE_BUCKET": "mine"})
    assert found.keys() == {"bakeVariables.SCCACHE_BUCKET"}
    assert "SCCACHE_BUCKET and SCCACHE_REGION together" in found["bakeVariables.SCCACHE_BUCKET"].allowed


def test_a_bucket_with_a_region_is_refused_too(bake: BakeFile) -> None:
    found = problems(bake, layer="box", bakeVariables={"SCCACHE_BUCKET": "a", "SCCACHE_REGION": "b"})
    assert found.keys() == {"bakeVariables.SCCACHE_BUCKET", "bakeVariables.SCCACHE_REGION"}
    assert "it is the foundation's bucket" in found["bakeVariables.SCCACHE_BUCKET"].allowed


@pytest.mark.parametrize("value", [3.1, None, ["a"], {"a": "b"}])
def test_a_value_that_yaml_has_changed_is_refused(bake: BakeFile, value: Any) -> None:
    found = problems(bake, layer="box", bakeVariables={"PYTHON_VERSION": value})
    assert 'quote it: PYTHON_VERSION: "..."' in found["bakeVariables.PYTHON_VERSION"].fix


def test_a_value_of_two_lines_is_refused(bake: BakeFile) -> None:
    found = problems(bake, layer="box", bakeVariables={"GIT_REF": "a\nb"})
    assert found["bakeVariables.GIT_REF"].allowed == "text on one line"


@pytest.mark.parametrize(
    "registry", ["https://r.example.com", "r.example.com/path", "r.example.com:", "r.example.com:99999", ""]
)
def test_a_registry_that_is_no_host_is_refused(bake: BakeFile, registry: str) -> None:
    found = problems(bake, layer="box", bakeVariables={"REGISTRY": registry, "REGISTRY_NAME": "rocm"})
    assert found.keys() == {"bakeVariables.REGISTRY"}


@pytest.mark.parametrize(("name", "other"), [("REGISTRY", "REGISTRY_NAME"), ("REGISTRY_NAME", "REGISTRY")])
def test_half_a_registry_is_refused(bake: BakeFile, name: str, other: str) -> None:
    found = problems(bake, layer="box", bakeVariables={name: "registry.example.com"})
    assert found[f"bakeVariables.{name}"].fix.startswith(f"set {other} too")


@pytest.mark.parametrize(("registry", "port"), [("r.example.com", 443), ("r.example.com:8080", 8080), (None, 443)])
def test_registry_port(bake: BakeFile, registry: str | None, port: int) -> None:
    variables = {"REGISTRY": registry, "REGISTRY_NAME": "rocm"} if registry else {}
    settings = parse({"layer": "box", "bakeVariables": json.dumps(variables)}, bake)
    assert isinstance(settings, BoxSettings)
    assert settings.registry_port == port


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "/a",
        "a/",
        "a//b",
        "a b",
        "a*",
        "..",
        "a/../b",
        "contexts",
        "contexts/a",
        "builds",
        "builds/a",
        "${x}",
        "x" * 201,
    ],
)
def test_a_cache_prefix_that_is_unsafe_is_refused(bake: BakeFile, prefix: str) -> None:
    found = problems(bake, layer="foundation", bakeVariables={"SCCACHE_S3_KEY_PREFIX": prefix})
    assert found.keys() == {"bakeVariables.SCCACHE_S3_KEY_PREFIX"}


def test_a_cache_prefix_that_only_begins_like_a_reserved_folder_is_fine(bake: BakeFile) -> None:
    raw = {"layer": "foundation", "bakeVariables": '{"SCCACHE_S3_KEY_PREFIX": "builds-2/a"}'}
    settings = parse(raw, bake)
    assert isinstance(settings, FoundationSettings)
    assert settings.cache_prefix == "builds-2/a"


def test_other_variables_have_no_place_in_a_foundation(bake: BakeFile) -> None:
    found = problems(bake, layer="foundation", bakeVariables={"MAX_JOBS": "3"})
    assert found["bakeVariables.MAX_JOBS"].fix == "set it in the box stack"


@pytest.mark.parametrize(
    "arn",
    [
        "ci",
        f"arn:aws:iam::{ACCOUNT}:root",
        f"arn:aws:iam::{ACCOUNT}:role/*",
        f"arn:aws:iam::{ACCOUNT}:role/ci?",
        f"arn:aws:sts::{ACCOUNT}:assumed-role/ci/session",
        "arn:aws:iam::*:role/ci",
        "*",
    ],
)
def test_a_principal_that_is_not_one_role_or_user_is_refused(bake: BakeFile, arn: str) -> None:
    assert problems(bake, layer="foundation", cacheRolePrincipals=[arn]).keys() == {"cacheRolePrincipals[0]"}


def test_a_principal_of_another_account_is_refused() -> None:
    mine, other = f"arn:aws:iam::{ACCOUNT}:role/ci", "arn:aws:iam::999999999999:role/ci"
    FoundationSettings("p", (mine,), True).check_account(ACCOUNT)
    with pytest.raises(SettingsError, match=other):
        FoundationSettings("p", (mine, other), True).check_account(ACCOUNT)


@pytest.mark.parametrize(("key", "value"), [("targets", "cache-probe"), ("targets", "[]"), ("bakeVariables", "[]")])
def test_a_value_of_another_shape_is_refused(bake: BakeFile, key: str, value: str) -> None:
    assert key in problems(bake, layer="box", **{key: value})


def test_read_gives_every_key_of_the_project_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulumi.get_project", lambda: "rocm-build-box")
    config = {"rocm-build-box:layer": "box", "rocm-build-box:typo": "x", "aws:region": "us-east-1"}
    pulumi.runtime.config.set_all_config(config, [])
    assert read() == {"layer": "box", "typo": "x"}


def test_a_secret_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulumi.get_project", lambda: "rocm-build-box")
    config = {"rocm-build-box:layer": "box", "rocm-build-box:bakeVariables": '{"GIT_REF": "hunter2"}'}
    pulumi.runtime.config.set_all_config(config, ["rocm-build-box:bakeVariables"])
    with pytest.raises(SettingsError) as error:
        read()
    assert [problem.key for problem in error.value.problems] == ["bakeVariables"]
    assert "hunter2" not in str(error.value)
