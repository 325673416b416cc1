"""The Pulumi program: settings to components to exports."""

from collections.abc import Mapping
from typing import Any

import pulumi

from buildspec import bakefile, user_data
from infra import context, settings, vcs
from infra.box import Box
from infra.errors import RefusedError
from infra.foundation import Foundation
from infra.reference import read_foundation
from infra.settings import CHECKOUT, FoundationSettings


async def main() -> Mapping[str, pulumi.Input[Any]]:
    """Return the stack's outputs."""
    try:
        stack = settings.load(bakefile.load(CHECKOUT / "rocm-bake.hcl"))
        if isinstance(stack, FoundationSettings):
            return Foundation("foundation", stack).exports
        return Box(
            "box",
            stack,
            foundation=await read_foundation(stack.foundation_stack),
            context=context.build(CHECKOUT),
            revision=vcs.revision(CHECKOUT, context.PATHS),
        ).exports
    except (RefusedError, bakefile.BakeFileError, user_data.UserDataTooLargeError) as error:
        # The engine prints this class without a traceback.
        raise pulumi.RunError(str(error)) from error


pulumi.run(main)
