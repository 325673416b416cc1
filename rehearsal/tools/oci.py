"""Images of the rehearsal's own, where a real one would be pulled."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from rehearsal.console import run_logged
from rehearsal.tools.store import remove_tree
from rehearsal.tools.system import SEARCH_PATH

# Like every public image has. BuildKit makes up what is missing in a history, in the words of what it did:
# run a step, or import a layer from a cache. One image had two digests by that.
_HISTORY = {"created": "2023-01-01T00:00:00Z", "created_by": "mmdebstrap"}


def move_to_layout(tree: Path, directory: Path, log: Path, environment: Sequence[str] = ()) -> None:
    """Make an OCI image layout (image-spec 1.1) of a root file system: one layer, tagged `latest`.

    Args:
        tree: is removed.
        directory: is made.
        log: where the output of tar goes.
        environment: what the image sets besides PATH, as `NAME=value`.
    """
    layer = directory.with_suffix(".tar")
    directory.mkdir(parents=True)
    run_logged("tar", ["tar", "--numeric-owner", "-C", tree, "-cf", layer, "--exclude=./dev/*", "."], log)
    remove_tree(tree)
    content = layer.read_bytes()
    layer.unlink()
    blobs = directory / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def blob(content: bytes, media_type: str) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": [f"PATH={SEARCH_PATH}", *environment], "Cmd": ["bash"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(content).hexdigest()}"]},
        "history": [_HISTORY],
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
        "layers": [
            # Level 1: unpacking at the start of a bake matters, the size on this disk does not.
            blob(gzip.compress(content, compresslevel=1, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip")
        ],
    }
    reference = blob(json.dumps(manifest).encode(), "application/vnd.oci.image.manifest.v1+json")
    reference["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
    (directory / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [reference]}))
    (directory / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))
