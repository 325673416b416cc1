"""IAM's eventual consistency: what was so some seconds ago is what the other services go by."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Generic, TypeVar

T = TypeVar("T")


class History(Generic[T]):
    """The states of things by their unique ids, each with the time from which it held."""

    def __init__(self) -> None:
        self._states: dict[str, list[tuple[float, T]]] = {}

    def note(self, now: Mapping[str, T]) -> None:
        """Take down how things are now; what is not among them any more is forgotten."""
        for gone in self._states.keys() - now.keys():
            del self._states[gone]
        for unique_id, state in now.items():
            states = self._states.setdefault(unique_id, [])
            if not states or states[-1][1] != state:
                states.append((time.monotonic(), state))

    def before(self, unique_id: str, seconds: float) -> T | None:
        """The state of a thing so many seconds ago, or None when there was no such thing."""
        moment = time.monotonic() - seconds
        return next((state for since, state in reversed(self._states.get(unique_id, [])) if since <= moment), None)
