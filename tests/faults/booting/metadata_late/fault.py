"""The metadata service does not answer a box before 25 seconds after its launch; the box asks after a few."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from rehearsal.cloud.imds import MetadataService

if TYPE_CHECKING:
    from wsgiref.types import StartResponse

LATE_SECONDS = 25.0


@contextmanager
def around(address: str) -> Iterator[None]:
    answer = MetadataService.__call__
    launch, refused = time.monotonic(), 0

    def answer_late(self: MetadataService, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        nonlocal refused
        if environ["REMOTE_ADDR"] == address and time.monotonic() < launch + LATE_SECONDS:
            refused += 1
            raise ConnectionResetError
        return answer(self, environ, start)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MetadataService, "__call__", answer_late)
        yield
    assert refused > 0
