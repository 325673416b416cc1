"""Serves git repositories over HTTP, as GitHub does: git's own `http-backend` behind WSGI."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterable
from pathlib import Path
from socketserver import ThreadingMixIn
from types import TracebackType
from typing import TYPE_CHECKING, Self
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

# What http-backend takes from its environment (https://git-scm.com/docs/git-http-backend).
_CGI = ("CONTENT_TYPE", "CONTENT_LENGTH", "PATH_INFO", "QUERY_STRING", "REMOTE_ADDR", "REQUEST_METHOD")


class GitServer:
    """Serves every repository below a folder, to read; a context manager."""

    def __init__(self, directory: Path, listening: socket.socket) -> None:
        """Prepare a server.

        Args:
            directory: the folder; a repository's address is its path below it.
            listening: a listening socket, which is closed with the server.
        """
        self._directory = directory
        self._server = _Server(("", 0), _Handler, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = listening
        self._server.server_name, self._server.server_port = listening.getsockname()[:2]
        self._server.setup_environ()
        self._server.set_app(self._answer)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        done = subprocess.run(
            ["git", "http-backend"],
            input=environ["wsgi.input"].read(length),
            capture_output=True,
            check=True,
            env={
                **{name: environ[name] for name in _CGI if environ.get(name)},
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(self._directory),
                "GIT_HTTP_EXPORT_ALL": "1",
                "GIT_PROTOCOL": environ.get("HTTP_GIT_PROTOCOL", ""),
                "HTTP_CONTENT_ENCODING": environ.get("HTTP_CONTENT_ENCODING", ""),
                # A commit as well as a tag may be asked for, as GitHub allows; the folder may be another user's.
                "GIT_CONFIG_COUNT": "2",
                "GIT_CONFIG_KEY_0": "uploadpack.allowAnySHA1InWant",
                "GIT_CONFIG_VALUE_0": "true",
                "GIT_CONFIG_KEY_1": "safe.directory",
                "GIT_CONFIG_VALUE_1": "*",
            },
        ).stdout
        head, _, body = done.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        start_response(headers.pop("Status", "200 OK"), list(headers.items()))
        return [body]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class names it so
        """Nothing: whoever clones shows what failed."""
