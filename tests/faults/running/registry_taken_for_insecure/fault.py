"""REGISTRY_INSECURE is true, and the registry speaks TLS."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.builds import bake_variable


def build(kept: KeptBox) -> BuildStatus:
    with bake_variable(kept, "REGISTRY_INSECURE", "true"):
        return kept.build()
