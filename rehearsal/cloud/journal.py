"""What the cloud writes down: every secret that it issues, and every request that it answers."""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


class Journal:
    """Lines of JSON in `issued.jsonl` and `requests.jsonl` under a directory, both readable by their owner
    only.

    `issued.jsonl` holds secrets on purpose: a test searches for each of them where none may be.
    `requests.jsonl` holds none: key ids, but no keys, tokens or bodies.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._issued = _open(directory / "issued.jsonl")
        self._requests = _open(directory / "requests.jsonl")
        self._errors = _open(directory / "errors.log")

    def issued(self, kind: str, value: str, principal: str, expires: datetime | None) -> None:
        """Note a secret.

        Args:
            kind: `AccessKeyId`, `SecretAccessKey`, `SessionToken`, `EcrPassword`, `EcrAuthorizationToken` or
                `MetadataToken`.
            value: the secret itself.
            principal: the ARN that it lets its holder act as, or the instance that it is for.
            expires: when it stops working; None for the operator's, which live as long as the cloud.
        """
        ends = expires.isoformat() if expires else None
        self._write(self._issued, {"kind": kind, "value": value, "principal": principal, "expires": ends})

    def request(self, entry: dict[str, Any]) -> None:
        """Note a request that was answered, with the time; `entry` must hold no secret."""
        self._write(self._requests, {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **entry})

    def error(self, text: str) -> None:
        """Note a failure of the stand-in itself (a traceback)."""
        with self._lock:
            os.write(self._errors, text.encode())

    def close(self) -> None:
        """Close the files; nothing can be noted afterwards."""
        for descriptor in (self._issued, self._requests, self._errors):
            os.close(descriptor)

    def _write(self, descriptor: int, entry: dict[str, Any]) -> None:
        line = json.dumps(entry, separators=(",", ":")) + "\n"
        with self._lock:
            os.write(descriptor, line.encode())


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
