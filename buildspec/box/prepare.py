"""ExecStartPre of the build's unit: writes what the build may know into the unit's runtime directory.

The token, the BuildKit secret ``id=aws``, and Docker's configuration, all in a tmpfs that systemd removes
with the unit.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
from pathlib import Path

from buildspec.box import config as box
from buildspec.box.config import BoxConfig
from buildspec.box.ecr_credentials import REGISTRY_HOST

TOKEN_BYTES = 32


def write_secrets(token_file: Path, secret_file: Path) -> None:
    """Write a new token, and the secret that tells sccache where to ask with it; both with mode 0600.

    The secret is a file in env format: both values consist of characters that need no quoting.
    """
    token = secrets.token_hex(TOKEN_BYTES)
    _write_private(token_file, token + "\n")
    _write_private(
        secret_file,
        f"AWS_CONTAINER_CREDENTIALS_FULL_URI={box.CREDENTIALS_URI}\nAWS_CONTAINER_AUTHORIZATION_TOKEN={token}\n",
    )


def docker_config(registry: str) -> dict[str, dict[str, str]]:
    """Return Docker's config.json: a credential helper for ECR, so that no login is stored or grows too old."""
    return {"credHelpers": {registry: "rocm-build-box"}} if REGISTRY_HOST.fullmatch(registry) else {}


def _write_private(path: Path, text: str) -> None:
    # O_EXCL: a file that is there already is not this build's.
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def main() -> int:
    """Prepare the runtime directory."""
    config = BoxConfig.load(box.CONFIG_FILE)
    write_secrets(box.TOKEN_FILE, box.SECRET_FILE)
    directory = box.RUNTIME_DIRECTORY / "docker"
    directory.mkdir(mode=0o700)
    registry = config.bake_variables["REGISTRY"]
    (directory / "config.json").write_text(json.dumps(docker_config(registry)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
