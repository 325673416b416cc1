"""The kept box's end, so the last of this folder by its name: it is powered off in the middle of a step."""

from __future__ import annotations

import tomllib
from pathlib import Path

from rehearsal import inventory, leaks
from rehearsal.builds import read_status, wait_for_power_off
from tests.boxes import KeptBox
from tests.faults.builds import CacheWatch, slow_compile
from tests.faults.expected import FILE, ExpectedStatus


def test_a_power_off_in_the_middle_is_reported_and_leaves_nothing(kept: KeptBox) -> None:
    cloud = kept.job.region.cloud
    before = inventory.take(cloud)
    with slow_compile(kept, files=600):
        watch = CacheWatch.begin(kept)
        kept.start_build()
        token = kept.run("cat", "/run/rocm-build/token").strip()
        watch.wait_for_writes(1)
        kept.run("systemctl", "poweroff", "--no-block")
        wait_for_power_off(kept.job.region, kept.outputs)
    status = read_status(kept.job.region, kept.outputs)
    assert status is not None
    expected = ExpectedStatus.of(tomllib.loads((Path(__file__).parent / "unplugged" / FILE).read_text()))
    assert expected.unmet(status, kept.job.log_of(kept.outputs), {}) == []
    gone = {(kind, name) for kind, name in before - inventory.take(cloud) if kind == "instance"}
    assert gone == {("instance", kept.outputs.instance_id)}
    issued = leaks.issued_secrets(kept.job.region) | {token: "token of the credential service"}
    assert leaks.search(leaks.places(kept.job.region, kept.outputs, kept.job.box), issued) == set()
