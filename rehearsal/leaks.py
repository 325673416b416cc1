"""Searches everything that a build leaves for everything that must not be in it."""

from __future__ import annotations

import gzip
import json
import subprocess
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from rehearsal.builds import BuildOutputs
from rehearsal.region import Region
from rehearsal.stacks import Stack
from rehearsal.tools.system import which

# A stream is searched piece by piece; a secret may lie across two of them.
_PIECE = 1 << 20
_LONGEST_SECRET = 8192


def issued_secrets(region: Region) -> dict[str, str]:
    """Every secret that the region has issued -> what it is.

    Key ids alone are no secrets, but are looked for as well.
    """
    lines = (region.cloud.directory / "issued.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    return {entry["value"]: f"{entry['kind']} of {entry['principal']}" for entry in entries}


def search(places: Mapping[str, Iterator[bytes]], secrets: Mapping[str, str]) -> set[tuple[str, str]]:
    """Which secret is in which place, as (place, what the secret is).

    Args:
        places: name -> the place's bytes, in pieces.
        secrets: as `issued_secrets` gives them.
    """
    wanted = {value.encode(): kind for value, kind in secrets.items()}
    found: set[tuple[str, str]] = set()
    for place, pieces in places.items():
        tail = b""
        for piece in pieces:
            window = tail + piece
            found |= {(place, kind) for value, kind in wanted.items() if value in window}
            tail = window[-_LONGEST_SECRET:]
    return found


def places(region: Region, build: BuildOutputs, stack: Stack) -> dict[str, Iterator[bytes]]:
    """Where a build leaves traces: what was pushed, its log and status, the box's journal and disk, the stack's state.

    Image histories are in the images' configurations, which are blobs of the registry like the layers.
    """
    s3 = region.cloud.client("s3")

    def object_bytes(key: str) -> Iterator[bytes]:
        yield s3.get_object(Bucket=build.bucket, Key=key)["Body"].read()

    machine = region.machines[build.instance_id]
    return {
        "registry": registry_blobs(region.cloud.directory / "registry"),
        "build log": object_bytes(build.log_key),
        "status": object_bytes(build.status_key),
        "journal": journal(machine.root / "var" / "log" / "journal"),
        "disk": files(machine.root),
        "state": iter([stack.export().encode()]),
    }


def registry_blobs(directory: Path) -> Iterator[bytes]:
    """The content of every blob: manifests, image configurations with their history, and layers, unpacked."""
    for blob in sorted(directory.rglob("blobs/sha256/*/*/data")):
        with blob.open("rb") as raw:
            compressed = raw.read(2) == b"\x1f\x8b"
        # A separator, so that the end of one blob and the begin of the next make no match.
        yield b"\0" * _LONGEST_SECRET
        with gzip.open(blob) if compressed else blob.open("rb") as content:
            try:
                while piece := content.read(_PIECE):
                    yield piece
            except (EOFError, zlib.error) as error:
                raise ValueError(f"{blob} is not a whole gzip stream") from error


def files(directory: Path) -> Iterator[bytes]:
    """The content of every file, but the journal's, which may be compressed, and cloud-init's own memory.

    cloud-init keeps its token of the metadata service there, for root; it works on the instance that got it alone
    (https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-metadata-v2-how-it-works.html).

    Raises:
        ValueError: there is none, so a search in it would prove nothing.
    """
    found = [path for path in sorted(directory.rglob("*")) if path.is_file() and not path.is_symlink()]
    if not found:
        raise ValueError(f"no file in {directory}")
    for path in found:
        if path.suffix == ".journal" or path.name == "obj.pkl":
            continue
        yield b"\0" * _LONGEST_SECRET
        with path.open("rb") as content:
            while piece := content.read(_PIECE):
                yield piece


def journal(directory: Path) -> Iterator[bytes]:
    """The box's journal, whole, as systemd exports it.

    Raises:
        subprocess.CalledProcessError: the journal cannot be read.
        ValueError: there is none, so a search in it would prove nothing.
    """
    if not any(directory.rglob("*.journal")):
        raise ValueError(f"no journal in {directory}")
    yield subprocess.run(
        [which("journalctl") or "journalctl", "--directory", directory, "--output=export", "--all"],
        capture_output=True,
        check=True,
    ).stdout
