"""Boxes that do not get to their build as they should: a folder of `booting` each.

They are launched through the EC2 API itself, as the program launches them, with what the case's `fault.py` changes in
the user data or around the box, and boot side by side. What each has to come to is in `expected.toml`. Whatever it
is, no secret is left, and nothing once it has ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from importlib import import_module
from typing import Any

import pytest

from rehearsal import inventory, leaks
from rehearsal.builds import read_status
from tests.boxes import Job, KeptBox, until
from tests.faults.boots import Box, launch
from tests.faults.expected import ExpectedStatus, cases, expected, missing

pytestmark = pytest.mark.slow

KIND = "booting"
END_SECONDS = 300.0


@pytest.fixture(scope="module")
def boxes(kept: KeptBox) -> Iterator[dict[str, Box]]:
    job = kept.job
    before = inventory.take(job.region.cloud)
    boxes: dict[str, Box] = {}
    with ExitStack() as around:
        for case in cases(KIND):
            fault = import_module(f"tests.faults.{KIND}.{case}.fault")
            boxes[case] = launch(job, getattr(fault, "change", None), getattr(fault, "spoil", None))
            if hasattr(fault, "around"):
                around.enter_context(fault.around(boxes[case].address))
        yield boxes
    ids = [box.outputs.instance_id for box in boxes.values()]
    job.region.cloud.client("ec2").terminate_instances(InstanceIds=ids)
    until("the boxes' end", lambda: not any(job.region.machines[instance_id].plugged for instance_id in ids))
    assert inventory.take(job.region.cloud) - before == set()


def unmet(job: Job, box: Box, wanted: Mapping[str, Any], names: Mapping[str, Any]) -> list[str]:
    """What is not as it should be, a line each."""
    wrong = [f"the instance is {box.state(job)}"] if box.state(job) != wanted["instance"] else []
    status = read_status(job.region, box.outputs)
    if "status" not in wanted or status is None:
        wrong += [] if ("status" in wanted) == (status is not None) else [f"the status is {status}"]
    else:
        wrong += ExpectedStatus.of(wanted["status"]).unmet(status, "", names)
    wrong += [f"no line {text!r} on the console" for text in missing(wanted.get("console", []), box.console(job), {})]
    return wrong + [f"there is {path}" for path in wanted.get("absent", []) if (box.root(job) / path).exists()]


@pytest.mark.parametrize("case", cases(KIND))
def test_a_fault_of_a_booting_box(kept: KeptBox, boxes: dict[str, Box], case: str) -> None:
    job, box = kept.job, boxes[case]
    wanted = expected(KIND, case)
    assert wanted.keys() <= {"instance", "status", "console", "absent"}
    names = {**job.foundation.outputs(), **job.box.outputs()}
    with suppress(TimeoutError):  # what is missing says more
        until("all of it", lambda: unmet(job, box, wanted, names) == [], seconds=END_SECONDS)
    assert unmet(job, box, wanted, names) == []
    places = {
        "journal": leaks.journal(box.root(job) / "var/log/journal"),
        "console": iter(["\n".join(box.console(job)).encode()]),
        "status": iter([json.dumps(read_status(job.region, box.outputs)).encode()]),
    }
    assert leaks.search(places, leaks.issued_secrets(job.region)) == set()
