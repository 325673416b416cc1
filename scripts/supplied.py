"""The bake variables that make sets by itself, and where each variable's value comes from.

Standard library alone, and little of that: `make list-vars` and `make build-...` wait for it.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from buildspec.box import jobs
from infra import vcs

CHECKOUT = Path(__file__).resolve().parent.parent

# What make's $(origin) says of a variable, and what a person calls it. The fragment overrides what is set but empty.
_SOURCES = {"override": "default", "environment": "environment", "command": "make's command line", "file": "Makefile"}
MAKE = "make"


@dataclass
class Values:
    """The bake variables in effect: value and source by name, and what the operator should know about them."""

    values: dict[str, str]
    sources: dict[str, str]
    notices: list[str] = field(default_factory=list)

    def _supply(self, name: str, value: str) -> None:
        self.values[name] = value
        self.sources[name] = MAKE

    def _is_default(self, name: str) -> bool:
        return self.sources[name] == _SOURCES["override"]


def read(environment: Mapping[str, str]) -> Values:
    """The values that the Makefile hands over; BAKE_SOURCES has `NAME=$(origin)` for each."""
    origins = dict(entry.split("=") for entry in environment["BAKE_SOURCES"].split())
    return Values(
        {name: environment[name] for name in origins},
        {name: _SOURCES[origin] for name, origin in origins.items()},
    )


def supply(found: Values, checkout: Path = CHECKOUT) -> Values:
    """Fill in what nobody has set: commit, its time, jobs, the run's name; and the WebDAV endpoint in any case."""
    _commit(found, checkout)
    if found._is_default("MAX_JOBS"):
        try:
            found._supply("MAX_JOBS", str(jobs.max_jobs_here()))
        except OSError as error:
            found.notices.append(f"MAX_JOBS is left to the node that builds: {error}")
    if found._is_default("RUN_ID"):
        started = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        found._supply("RUN_ID", f"{socket.gethostname()}-{started}-{os.getpid()}")
    _endpoint(found)
    return found


def _commit(found: Values, checkout: Path) -> None:
    missing = [name for name in ("VCS_REF", "BUILD_DATE") if found._is_default(name)]
    if not missing:
        return
    try:
        revision = vcs.revision(checkout, vcs.BUILD_PATHS)
    except vcs.VcsError as error:
        found.notices.append(f"{' and '.join(missing)} stay empty: {str(error).splitlines()[0]}")
        return
    for name, value in (("VCS_REF", revision.ref), ("BUILD_DATE", revision.date)):
        if name in missing:
            found._supply(name, value)


def _endpoint(found: Values) -> None:
    name, values = "SCCACHE_WEBDAV_ENDPOINT", found.values
    host = values["SCCACHE_WEBDAV_HOST"]
    # With a bucket nothing reads the WebDAV store, and off the fleet its name has no address.
    address = host if host == "" or values["SCCACHE_BUCKET"] != "" else _resolved(host, found.notices)
    port = values["SCCACHE_WEBDAV_PORT"]
    endpoint = f"http://{address}:{port}" if port else f"http://{address}"
    endpoint = endpoint if address else ""
    if not found._is_default(name) and values[name] != endpoint:
        found.notices.append(
            f"{name}={values[name]} (from {found.sources[name]}) is replaced by {endpoint}: make composes it from "
            "SCCACHE_WEBDAV_HOST and SCCACHE_WEBDAV_PORT, so set these; a docker buildx bake of your own takes yours"
        )
    found._supply(name, endpoint)


def _resolved(host: str, notices: list[str]) -> str:
    """An address of `host`, because build containers do not know the fleet's names; or `host`, when it has none."""
    try:
        answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        notices.append(f"SCCACHE_WEBDAV_HOST={host} has no address here ({error}); the name is passed on as it is")
        return host
    # The address is a build argument, so of several always the same one.
    family, address = min((answer[0], str(answer[4][0])) for answer in answers)
    return f"[{address}]" if family == socket.AF_INET6 else address
