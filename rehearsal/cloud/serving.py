"""A small threaded HTTP/1.1 server for WSGI applications, on listening sockets that somebody else has made.

Written here because the ready ones do not fit: werkzeug's closes the connection after every answer (a TLS
handshake for each of sccache's objects), cheroot shakes hands in its accepting thread, and the process-based
ones cannot share moto's state. The sockets are given from outside since some live in another network
namespace.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import traceback
from collections.abc import Callable, Iterable
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from io import BufferedIOBase
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication

# A connection that says nothing for so long is closed, in seconds.
IDLE_TIMEOUT = 300
# How long `close` waits for each request that is being answered, in seconds.
CLOSING_TIMEOUT = 5
# So much (bytes) of a request body that the application left unread is read, because the next request on the
# connection starts behind it; when there is more, the connection is closed.
LONGEST_DRAIN = 1 << 20
_BLOCK = 1 << 16


class Body:
    """The body of a request, which ends where HTTP says it does: after a length, or after the last chunk."""

    def __init__(self, source: BufferedIOBase, length: int, chunked: bool) -> None:
        self._source = source
        self._left = length
        self._chunked = chunked
        self._ended = not chunked and length == 0

    @property
    def ended(self) -> bool:
        """Whether everything has been read, so that the next request begins here."""
        return self._ended

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes, or the whole rest when it is negative; fewer than asked for only at the end.

        Raises:
            ConnectionError: the client went away before the end.
        """
        parts: list[bytes] = []
        while not self._ended and size != 0:
            if self._left == 0:
                self._next_chunk()
                continue
            block = self._source.read(min(self._left, _BLOCK if size < 0 else min(size, _BLOCK)))
            if not block:
                raise ConnectionError("the client closed the connection in the middle of a request body")
            self._left -= len(block)
            size = size - len(block) if size > 0 else size
            parts.append(block)
            if self._left == 0:
                if self._chunked:
                    self._source.readline()
                else:
                    self._ended = True
        return b"".join(parts)

    def readline(self, size: int = -1) -> bytes:
        """WSGI asks for it; no application here does.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("no application here reads a body by lines")

    readlines = readline

    def __iter__(self) -> Body:
        return self

    def __next__(self) -> bytes:
        block = self.read(_BLOCK)
        if not block:
            raise StopIteration
        return block

    def _next_chunk(self) -> None:
        self._left = int(self._source.readline().split(b";", 1)[0], 16)
        if self._left == 0:
            while self._source.readline().strip():
                pass
            self._ended = True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body leave in one write; Nagle's algorithm would only hold back the rest of a long answer.
    disable_nagle_algorithm = True
    timeout = IDLE_TIMEOUT
    server: Any

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class calls it so
        """The applications keep their own log."""

    def _serve(self) -> None:
        chunked = "chunked" in self.headers.get("Transfer-Encoding", "").lower()
        body = Body(self.rfile, 0 if chunked else int(self.headers.get("Content-Length") or 0), chunked)
        self._head: list[str] = []
        self._framing = ""
        try:
            answer = self.server.application(self._environ(body, chunked), self._start)
        except OSError:
            raise
        except Exception:
            # A fault of the stand-in. It must not look like one of the program that is rehearsed, nor be
            # lost.
            self.server.report(traceback.format_exc())
            answer = [b"The rehearsal's cloud failed; its errors.log has the traceback.\n"]
            self._start("500 Internal Server Error", [("Content-Type", "text/plain")])
        if not body.ended:
            body.read(LONGEST_DRAIN)
            self.close_connection = self.close_connection or not body.ended
        try:
            self._send(answer)
        finally:
            close = getattr(answer, "close", None)
            if close is not None:
                close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = do_OPTIONS = _serve  # noqa: N815  # the base class looks for these

    def _environ(self, body: Body, chunked: bool) -> dict[str, Any]:
        path, _, query = self.path.partition("?")
        environ: dict[str, Any] = {
            "REQUEST_METHOD": self.command,
            "SCRIPT_NAME": "",
            "PATH_INFO": unquote_to_bytes(path).decode("latin-1"),
            "QUERY_STRING": query,
            "RAW_URI": self.path,
            "REMOTE_ADDR": self.client_address[0],
            "SERVER_NAME": self.server.name,
            "SERVER_PORT": str(self.server.port),
            "SERVER_PROTOCOL": self.request_version,
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": self.server.scheme,
            "wsgi.input": body,
            "wsgi.input_terminated": True,
            "wsgi.errors": None,
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        for name, value in self.headers.items():
            key = name.upper().replace("-", "_")
            key = key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"
            environ[key] = f"{environ[key]},{value}" if key in environ else value
        if chunked:
            environ.pop("CONTENT_LENGTH", None)
        return environ

    def _start(self, status: str, headers: list[tuple[str, str]], _exc_info: Any = None) -> Any:
        self._head = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers)]
        names = {name.lower() for name, _ in headers}
        if "date" not in names:
            self._head.append(f"Date: {formatdate(usegmt=True)}")
        if self.command == "HEAD" or status.startswith(("1", "204", "304")):
            self._framing = "none"
        elif "content-length" in names:
            self._framing = "length"
        else:
            self._framing = "chunked"
        return self.wfile.write

    def _send(self, answer: Iterable[bytes]) -> None:
        pending = b""
        if isinstance(answer, (list, tuple)) and self._framing == "chunked":
            pending = b"".join(answer)
            answer = ()
            self._framing = "length"
            self._head.append(f"Content-Length: {len(pending)}")
        blocks = iter(answer)
        if not pending:
            # An application may call start_response as late as with its first block.
            pending = next(blocks, b"")
        if self._framing == "chunked":
            self._head.append("Transfer-Encoding: chunked")
        if self.close_connection:
            self._head.append("Connection: close")
        head = "\r\n".join([*self._head, "\r\n"]).encode("latin-1")
        self.wfile.write(head + self._frame(pending))
        for block in blocks:
            self.wfile.write(self._frame(block))
        if self._framing == "chunked":
            self.wfile.write(b"0\r\n\r\n")

    def _frame(self, block: bytes) -> bytes:
        if self._framing == "none" or not block:
            return b""
        return b"%x\r\n%b\r\n" % (len(block), block) if self._framing == "chunked" else block


class HttpServer:
    """Serves `application` on one listening socket, a thread for each connection, until `close`.

    Args:
        listener: bound and listening; closed by `close`.
        report: is given the traceback when the application fails; the client gets a 500.
        context: the TLS context, or None for plain HTTP.
    """

    def __init__(
        self,
        listener: socket.socket,
        application: WSGIApplication,
        report: Callable[[str], None],
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.application = application
        self.report = report
        self.name, self.port = listener.getsockname()[:2]
        self.scheme = "https" if context else "http"
        self._listener = listener
        self._context = context
        self._connections: set[socket.socket] = set()
        self._handlers: set[threading.Thread] = set()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._accept, name=f"accept-{self.name}:{self.port}", daemon=True)

    def start(self) -> None:
        """Begin to accept connections, in a thread."""
        self._listener.setblocking(True)
        self._thread.start()

    def close(self) -> None:
        """Accept no more, end every connection, and wait for what is being answered (`CLOSING_TIMEOUT` each)."""
        self._closing.set()
        # On Linux this wakes the accepting thread, which closing alone does not.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for handler in list(self._handlers):
            handler.join(CLOSING_TIMEOUT)

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection, address = self._listener.accept()
            except OSError:
                if self._closing.is_set():
                    return
                raise
            handler = threading.Thread(target=self._handle, args=(connection, address), daemon=True)
            self._handlers.add(handler)
            handler.start()

    def _handle(self, connection: socket.socket, address: tuple[str, int]) -> None:
        stream = connection
        self._connections.add(connection)
        try:
            connection.settimeout(IDLE_TIMEOUT)
            if self._context is not None:
                # The handshake is made here, not in the accepting thread, so that a silent client holds up
                # nobody.
                stream = self._context.wrap_socket(connection, server_side=True)
                self._connections.add(stream)
            _Handler(stream, address, self)  # type: ignore[arg-type]  # wants socketserver's, uses none of it
        except (OSError, ValueError):
            # A client that goes away, speaks no TLS or no HTTP ends its own connection and nothing else.
            pass
        finally:
            self._connections -= {connection, stream}
            with contextlib.suppress(OSError):
                stream.close()
            self._handlers.discard(threading.current_thread())


class StartResponseRecorder:
    """Keeps what an application says to start_response, for a wrapper that has to look at it first."""

    def __init__(self) -> None:
        self.status = ""
        self.headers: list[tuple[str, str]] = []

    def __call__(self, status: str, headers: list[tuple[str, str]], _exc_info: Any = None, /) -> Any:
        """Take status and headers, the last ones given; what would be written around them is dropped."""
        self.status, self.headers = status, headers
        return lambda _: None


def answer(
    start: StartResponse, status: str, content_type: str, body: bytes, headers: Iterable[tuple[str, str]] = ()
) -> list[bytes]:
    """Send a whole answer."""
    start(status, [("Content-Type", content_type), ("Content-Length", str(len(body))), *headers])
    return [body]
