"""An `up` that is killed half way, on the real engine: a folder of `interrupted` each.

`fault.py` has the stack, how its `up` is killed, and how what it has made is deleted; `expected.toml` has the kinds of
that, and what the next `up` comes to and says. Whatever it is, the stack is whole after that, and `destroy` leaves
nothing.
"""

from __future__ import annotations

from importlib import import_module

import pytest

from rehearsal import inventory, leaks
from tests.boxes import Job
from tests.faults.expected import cases, expected, missing

pytestmark = pytest.mark.slow

KIND = "interrupted"


@pytest.mark.parametrize("case", cases(KIND))
def test_an_up_that_is_killed_half_way(job: Job, case: str) -> None:
    wanted = expected(KIND, case)
    assert wanted.keys() == {"lost", "exit_code", "says"}
    fault = import_module(f"tests.faults.{KIND}.{case}.fault")
    cloud = job.region.cloud
    before = inventory.take(cloud)
    stack = fault.new_stack(job)
    fault.up_and_kill(job, stack)
    stored = {resource.get("id") for resource in stack.resources()}

    def untracked() -> set[tuple[str, str]]:
        made = inventory.take(cloud) - before
        return {(kind, name) for kind, name in made if kind in wanted["lost"] and name not in stored}

    lost = untracked()
    assert {kind for kind, _ in lost} == set(wanted["lost"])

    locked = stack.attempt("up", "--yes", "--skip-preview")
    assert locked.returncode != 0
    assert "pulumi cancel" in locked.stderr
    assert job.workspace.attempt("cancel", "--yes", "--stack", stack.name).returncode == 0
    again = stack.attempt("up", "--yes", "--skip-preview")
    said = again.stdout + again.stderr
    assert again.returncode == wanted["exit_code"], said
    assert [text for _, name in lost for text in missing(wanted["says"], [said], {"lost": name})] == []
    assert "Traceback" not in said
    if wanted["exit_code"]:
        # What is refused has not doubled it.
        assert untracked() == lost
    places = {"output": iter([said.encode()]), "state": iter([stack.export().encode()])}
    assert leaks.search(places, leaks.issued_secrets(job.region)) == set()

    for kind, name in lost:
        fault.delete(cloud, kind, name)
    if wanted["exit_code"]:
        stack.up()
    stack.destroy()
    assert inventory.take(cloud) == before
