"""The kept box's end, so the last of this folder by its name: the fault in the folder `unplugged`."""

from __future__ import annotations

from rehearsal import inventory, leaks
from tests.boxes import KeptBox
from tests.faults.expected import ExpectedStatus, expected
from tests.faults.unplugged import fault


def test_a_box_that_is_powered_off_reports_it_and_leaves_nothing(kept: KeptBox) -> None:
    cloud = kept.job.region.cloud
    before = inventory.take(cloud)
    status, token = fault.build(kept)
    wanted = ExpectedStatus.of(expected("unplugged"))
    assert wanted.unmet(status, kept.job.log_of(kept.outputs), {}) == []
    gone = before - inventory.take(cloud)
    assert sorted(kind for kind, _ in gone) == ["instance", "network interface", "volume"]
    assert ("instance", kept.outputs.instance_id) in gone
    issued = leaks.issued_secrets(kept.job.region) | {token: "token of the credential service"}
    assert leaks.search(leaks.places(kept.job.region, kept.outputs, kept.job.box), issued) == set()
