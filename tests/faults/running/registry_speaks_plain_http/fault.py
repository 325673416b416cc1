"""REGISTRY_INSECURE is false, and the registry speaks plain HTTP."""

from __future__ import annotations

from buildspec.box.status import BuildStatus
from tests.boxes import KeptBox
from tests.builds import bake_variable

PORT = "5000"
DIRECTORY = "/root/plain-registry"
SERVICE = "plain-registry.service"


def build(kept: KeptBox) -> BuildStatus:
    # Its /v2/ answers 200, which is all that is asked before the bake.
    kept.run("mkdir", "--parents", f"{DIRECTORY}/v2")
    kept.run("systemd-run", "--unit", SERVICE, "python3", "-m", "http.server", PORT, "--directory", DIRECTORY)
    try:
        with bake_variable(kept, "REGISTRY", f"{kept.machine.address}:{PORT}"):
            return kept.build()
    finally:
        kept.run("systemctl", "stop", SERVICE)
        kept.run("rm", "--recursive", DIRECTORY)
