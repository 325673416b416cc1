"""What goes wrong on demand: throttling, failures, slowness, silence.

A fault is switched on by a test and matches requests by service, operation and path until it is stopped, has been
met often enough, or its time is over:

    with cloud.faults.throttle("s3", "PutObject", times=3) as fault:
        ...
    assert fault.met == 3
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import TracebackType
from typing import Self, TypedDict, Unpack

from rehearsal.cloud import errors
from rehearsal.cloud.errors import ApiError

REGISTRY = "registry"


class UnansweredError(ConnectionError):
    """The connection is closed without an answer."""


@dataclass(frozen=True)
class Call:
    """What a fault can be told to look at.

    Attributes:
        service: as in a signature's scope (`s3`, `sts`), or `registry` for the images themselves.
        operation: `PutObject`, `AssumeRole`; of the registry the ECR action, such as `PutImage`.
        path: `/bucket/key` of S3, `/v2/...` of the registry, else what was asked for.
    """

    service: str
    operation: str
    path: str


class Limits(TypedDict, total=False):
    """Which requests a fault meets; see `Faults`."""

    path: str
    times: int
    lasting: float


class Fault:
    """One thing that goes wrong. A context manager; it can also be stopped by `stop`."""

    def __init__(
        self,
        effect: Callable[[Call], None],
        matches: Callable[[Call], bool],
        *,
        times: int | None,
        lasting: float | None,
    ) -> None:
        self.met = 0
        """How many requests it has met."""
        self._effect = effect
        self._matches = matches
        self._times = times
        self._ends = time.monotonic() + lasting if lasting is not None else None
        self._stopped = False

    def stop(self) -> None:
        """Let the requests through again."""
        self._stopped = True

    @property
    def over(self) -> bool:
        """Whether it meets no request any more."""
        late = self._ends is not None and time.monotonic() >= self._ends
        return self._stopped or late or (self._times is not None and self.met >= self._times)

    def takes(self, call: Call) -> bool:
        """Whether this request is met by it; counts it when it is."""
        if self.over or not self._matches(call):
            return False
        self.met += 1
        return True

    def strike(self, call: Call) -> None:
        """Do what it does.

        Raises:
            ApiError: it refuses the request.
            UnansweredError: it lets the request vanish.
        """
        self._effect(call)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class Faults:
    """The faults of one cloud. Safe for threads.

    Each method that switches one on takes the service, and optionally:

    operation: the operation, by default any.
    path: a pattern (`*` for anything) that the path has to match, by default any.
    times: how many requests it meets, by default any number.
    lasting: for how many seconds from now, by default until it is stopped.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._closing = threading.Event()

    def throttle(self, service: str, operation: str = "*", **limits: Unpack[Limits]) -> Fault:
        """Refuse with the service's own "too many requests"; nearly every client tries again."""
        return self.refuse(errors.throttled(service), service, operation, **limits)

    def fail(self, service: str, operation: str = "*", **limits: Unpack[Limits]) -> Fault:
        """Refuse with 500 and the service's own code."""
        return self.refuse(errors.internal(service), service, operation, **limits)

    def refuse(self, error: ApiError, service: str, operation: str = "*", **limits: Unpack[Limits]) -> Fault:
        """Refuse with any error."""

        def effect(_: Call) -> None:
            raise error

        return self._add(effect, service, operation, **limits)

    def slow(self, seconds: float, service: str, operation: str = "*", **limits: Unpack[Limits]) -> Fault:
        """Answer so many seconds later."""

        def effect(_: Call) -> None:
            self._closing.wait(seconds)

        return self._add(effect, service, operation, **limits)

    def unreachable(self, service: str, operation: str = "*", **limits: Unpack[Limits]) -> Fault:
        """Close the connection without an answer."""

        def effect(call: Call) -> None:
            raise UnansweredError(f"{call.service}:{call.operation} {call.path} is not answered on demand")

        return self._add(effect, service, operation, **limits)

    def meet(self, call: Call) -> None:
        """Let every fault that matches a request do its work, in the order in which they were switched on.

        Raises:
            ApiError: one refuses the request.
            UnansweredError: one lets it vanish.
        """
        with self._lock:
            self._faults = [fault for fault in self._faults if not fault.over]
            taken = [fault for fault in self._faults if fault.takes(call)]
        for fault in taken:
            fault.strike(call)

    def close(self) -> None:
        """End all waiting, so that the cloud can stop."""
        self._closing.set()

    def _add(
        self,
        effect: Callable[[Call], None],
        service: str,
        operation: str,
        *,
        path: str = "*",
        times: int | None = None,
        lasting: float | None = None,
    ) -> Fault:
        def matches(call: Call) -> bool:
            return call.service == service and fnmatchcase(call.operation, operation) and fnmatchcase(call.path, path)

        fault = Fault(effect, matches, times=times, lasting=lasting)
        with self._lock:
            self._faults.append(fault)
        return fault
