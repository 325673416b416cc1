"""What a box stack knows of its foundation: the outputs of the other stack, typed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import pulumi

from infra.errors import RefusedError


class FoundationError(RefusedError):
    """There is no usable foundation; the message says which stack was looked for and how to make it."""


@dataclass(frozen=True)
class FoundationOutputs:
    """The outputs of a foundation stack that a box needs; each has the output's name in snake case."""

    account_id: str
    region: str
    bucket_name: str
    cache_prefix: str
    cache_role_arn: str
    box_instance_profile: str
    vpc_id: str
    s3_endpoint_id: str
    subnet_ids: Mapping[str, str]
    """Availability zone to subnet id."""
    registry: str
    registry_name: str
    log_group: str

    def check_deployment(self, account: str, region: str, stack: str) -> None:
        """Refuse a box in another account or region than its foundation: network, role and bucket are there.

        Raises:
            FoundationError: they differ.
        """
        if (account, region) != (self.account_id, self.region):
            raise FoundationError(
                f"foundation stack {stack} is in account {self.account_id}, region {self.region}, "
                f"but this stack deploys to account {account}, region {region}.\n"
                f"  fix: use credentials of {self.account_id} and `pulumi config set aws:region {self.region}`, "
                "or set foundationStack to a foundation that is there"
            )


def output_name(field: str) -> str:
    """Return the stack output's name for a field of FoundationOutputs."""
    head, *tail = field.split("_")
    return head + "".join(word.capitalize() for word in tail)


async def read_foundation(stack: str) -> FoundationOutputs:
    """Return the outputs of the foundation stack `stack` of this organization and project, at preview too.

    Raises:
        FoundationError: there is no such stack, or it has not been deployed, or it is not a foundation.
    """
    name = f"{pulumi.get_organization()}/{pulumi.get_project()}/{stack}"
    make_it = (
        f"  fix: `pulumi stack init {stack}` (once), `pulumi config set layer foundation --stack {stack}` and "
        f"`pulumi up --stack {stack}`; or set foundationStack to a foundation that exists"
    )
    _check_that_stack_exists(name, make_it)
    reference = pulumi.StackReference(stack, stack_name=name)
    values: dict[str, Any] = {}
    for field in fields(FoundationOutputs):
        values[field.name] = (await reference.get_output_details(output_name(field.name))).value
    missing = [output_name(field) for field, value in values.items() if value is None]
    if len(missing) == len(values):
        raise FoundationError(
            f"foundation stack {name}: it exists but has no foundation's outputs; it was not deployed yet.\n{make_it}"
        )
    if missing:
        raise FoundationError(
            f"foundation stack {name}: outputs missing: {', '.join(missing)}; "
            "an older version of this program deployed it.\n"
            f"  fix: `pulumi up --stack {stack}`"
        )
    return FoundationOutputs(**values)


def last_instance_id() -> str | None:
    """Return the box that this stack's last complete `up` left; None before the first."""
    name = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    instance_id: str | None = _stack_outputs(name).get("instanceId")
    return instance_id


def _stack_outputs(name: str) -> Mapping[str, Any]:
    answer = pulumi.runtime.invoke("pulumi:pulumi:readStackOutputs", {"name": name}).value
    outputs: Mapping[str, Any] = answer["outputs"]
    return outputs


def _check_that_stack_exists(name: str, make_it: str) -> None:
    # The engine ends the program, with a traceback that says nothing, when a StackReference names a stack
    # that is not there. The function of the engine that older SDKs read stack outputs with fails where it can
    # be caught.
    try:
        _stack_outputs(name)
    except Exception as error:  # the SDK raises no class of its own
        if not re.search(r"(unknown|no) stack", str(error)):
            raise
        raise FoundationError(f"foundation stack {name}: there is none.\n{make_it}") from error
