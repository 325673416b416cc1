"""What `destroy` takes and what it leaves, on the real engine. No instance boots here: no test needs one to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rehearsal import inventory
from rehearsal.region import Region
from rehearsal.setup import Setup
from rehearsal.stacks import Stack, Workspace

FOUNDATION = {"layer": "foundation"}
BOX = {"layer": "box", "targets": ["cache-probe"]}


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    with Region(tmp_path_factory.mktemp("region"), rootfs=None) as region:
        yield region


@pytest.fixture
def workspace(region: Region, setup: Setup, tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "workspace", setup.engine, region.environment())


def resources(stack: Stack) -> dict[str, Any]:
    """The state's resources by URN, without what changes at every command."""
    deployment = json.loads(stack.export())["deployment"]
    volatile = ("modified", "created")
    return {
        resource["urn"]: {key: value for key, value in resource.items() if key not in volatile}
        for resource in deployment["resources"]
    }


def test_what_destroy_takes_and_what_it_leaves(region: Region, workspace: Workspace) -> None:
    empty = inventory.take(region.cloud)
    foundation = workspace.stack("foundation", FOUNDATION)
    foundation.up()
    # A refresh reads what AWS adds by itself, such as a route table's routes, which a box does not change.
    refresh = ("refresh", "--yes", "--skip-preview")
    assert foundation.attempt(*refresh).returncode == 0
    with_foundation, before = inventory.take(region.cloud), resources(foundation)

    box = workspace.stack("dev", BOX)
    box.up()
    assert {kind for kind, _ in inventory.take(region.cloud) - with_foundation} == {
        "instance",
        "network interface",
        "security group",
        "volume",
    }
    box.destroy()
    assert inventory.take(region.cloud) == with_foundation
    assert foundation.attempt(*refresh, "--expect-no-changes").returncode == 0
    assert resources(foundation) == before

    refused = foundation.attempt("destroy", "--yes")
    assert refused.returncode != 0
    assert "protect" in refused.stdout + refused.stderr
    assert inventory.take(region.cloud) == with_foundation

    # The documented way.
    foundation.configure({**FOUNDATION, "protect": False})
    foundation.up()
    foundation.destroy()
    assert inventory.take(region.cloud) == empty


def test_a_box_without_a_foundation_is_refused_with_the_way_to_one(workspace: Workspace) -> None:
    box = workspace.stack("dev", BOX)
    refused = box.attempt("up", "--yes", "--skip-preview")
    output = refused.stdout + refused.stderr
    assert refused.returncode != 0
    assert "organization/rocm-build-box/foundation" in output
    assert "pulumi up --stack foundation" in output
    assert "Traceback" not in output


def test_wrong_settings_are_refused_all_at_once(workspace: Workspace) -> None:
    box = workspace.stack(
        "dev",
        {
            "layer": "box",
            "targets": ["cache-prob"],
            "bakeVariables": {"PYTORCH_VERSON": "2.15.0", "SCCACHE_BUCKET": "mine"},
            "instanceTyp": "m7a.8xlarge",
            "volumeGiB": 1,
        },
    )
    refused = box.attempt("preview")
    output = refused.stdout + refused.stderr
    assert refused.returncode != 0
    assert [key for key in ("targets", "bakeVariables", "instanceTyp", "volumeGiB") if f"{key}" not in output] == []
    assert "cache-probe" in output
    assert "PYTORCH_VERSION" in output
    assert "SCCACHE_REGION" in output
    assert "Traceback" not in output
