"""The metadata service does not answer a box for the first 25 seconds that it is asked."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from rehearsal.cloud.imds import MetadataService
from tests.faults.boots import with_a_bake_that_does_not_end

if TYPE_CHECKING:
    from wsgiref.types import StartResponse

LATE_SECONDS = 25.0
change = with_a_bake_that_does_not_end


@contextmanager
def around(address: str) -> Iterator[None]:
    answer = MetadataService.__call__
    first: float | None = None
    refused = 0

    def answer_late(self: MetadataService, environ: dict[str, Any], start: StartResponse) -> Iterable[bytes]:
        nonlocal first, refused
        if environ["REMOTE_ADDR"] == address:
            first = first or time.monotonic()
            if time.monotonic() < first + LATE_SECONDS:
                refused += 1
                raise ConnectionResetError
        return answer(self, environ, start)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MetadataService, "__call__", answer_late)
        yield
    assert refused > 0
