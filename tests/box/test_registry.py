"""What the box asks of a registry before and after a bake: against real listeners, with and without TLS."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from buildspec.box import buildkit, verify
from buildspec.box.cache_probe import Patience
from buildspec.box.registry import Reference, RegistryError
from buildspec.box.registry_probe import probe
from rehearsal.cloud.tls import Authority

DIGITS = "sha256:" + "0" * 64


class Handler(BaseHTTPRequestHandler):
    """A registry that has one tag."""

    def do_GET(self) -> None:
        self._answer({"/v2/": 200}.get(self.path, 404))

    def do_HEAD(self) -> None:
        self._answer({"/v2/rocm/pytorch/manifests/app": 200, "/v2/broken/manifests/app": 500}.get(self.path, 404))

    def _answer(self, status: int) -> None:
        self.send_response(self.server.always or status)  # type: ignore[attr-defined]  # set below
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        """Nothing."""


@contextmanager
def registry(context: ssl.SSLContext | None = None, always: int | None = None) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.always = always  # type: ignore[attr-defined]  # one value for the handler
    if context is not None:
        # Not in the accepting thread: a client that speaks no TLS must not end the server.
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls")).make()


@pytest.fixture
def trusted(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A server's context with a certificate that this process trusts."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    return authority.server_context()


def once() -> Patience:
    return Patience(seconds=0.0, pause=1.0)


def refusal(host: str, *, insecure: bool) -> str:
    with pytest.raises(RegistryError) as caught:
        # None of the refusals is worth waiting for.
        probe(host, insecure=insecure, patience=Patience(seconds=1000.0, pause=1000.0))
    return str(caught.value)


def test_a_registry_that_speaks_what_the_variable_says(trusted: ssl.SSLContext) -> None:
    with registry(trusted) as host:
        assert probe(host, insecure=False, patience=once()) == f"registry: https://{host}/v2/ answers 200"
    with registry() as host:
        assert probe(host, insecure=True, patience=once()) == f"registry: http://{host}/v2/ answers 200"


def test_plain_http_where_tls_was_expected() -> None:
    with registry() as host:
        assert refusal(host, insecure=False).startswith(
            f"{host}: REGISTRY_INSECURE is not true, and the registry speaks plain HTTP only; set REGISTRY_INSECURE to"
        )


@pytest.mark.parametrize("trusts", [True, False])
def test_tls_where_plain_http_was_expected(authority: Authority, monkeypatch: pytest.MonkeyPatch, trusts: bool) -> None:
    if trusts:
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    with registry(authority.server_context()) as host:
        assert refusal(host, insecure=True).startswith(
            f"{host}: REGISTRY_INSECURE is true, and the registry speaks TLS"
        )


def test_a_certificate_that_is_not_trusted(authority: Authority) -> None:
    with registry(authority.server_context()) as host:
        assert refusal(host, insecure=False).startswith(f"{host}: the registry's certificate is not trusted: ")


def test_a_registry_that_wants_a_login(trusted: ssl.SSLContext) -> None:
    with registry(trusted, always=401) as host:
        assert refusal(host, insecure=False) == (
            f"https://{host}/v2/: the registry answers 401: it wants a login, and a box has one for ECR only"
        )


def test_a_registry_that_fails_is_asked_again(trusted: ssl.SSLContext) -> None:
    with registry(trusted, always=503) as host, pytest.raises(RegistryError, match="the registry answers 503"):
        probe(host, insecure=False, patience=once())


@pytest.mark.parametrize("insecure", [True, False])
def test_a_registry_that_is_not_there(insecure: bool) -> None:
    with pytest.raises(RegistryError, match=r"127\.0\.0\.1:9: the registry was not reached: .*refused"):
        probe("127.0.0.1:9", insecure=insecure, patience=once())


def test_what_a_bake_promises() -> None:
    def cache(reference: str) -> dict[str, str]:
        return {"type": "registry", "ref": reference, "ignore-error": "true"}

    plan = {
        "target": {
            "app": {
                "tags": ["r/n:app", "r/n:app-2"],
                "output": [{"type": "image", "push": "true"}],
                "cache-to": [cache("r/n:app-cache"), {"type": "inline"}],
            },
            "input": {"tags": ["r/n:input"], "output": [{"type": "cacheonly"}], "cache-to": [cache("r/n:input-cache")]},
            "bare": {"tags": ["r/n:bare"]},
        }
    }
    assert [str(reference) for reference in verify.promised(plan)] == [
        "r/n:app",
        "r/n:app-2",
        "r/n:app-cache",
        "r/n:input-cache",
    ]


@pytest.mark.parametrize("text", ["debian", "r/n", "n:tag", f"r/n@{DIGITS}", "r/:tag", "/n:tag"])
def test_a_reference_without_registry_or_tag(text: str) -> None:
    with pytest.raises(RegistryError, match="is not of the form registry/repository:tag"):
        Reference.parse(text)


def test_tags_that_are_missing(trusted: ssl.SSLContext) -> None:
    with registry(trusted) as host:
        wanted = [
            Reference(host, "rocm/pytorch", "app"),
            Reference(host, "rocm/pytorch", "x"),
            Reference(host, "broken", "app"),
        ]
        assert verify.missing(wanted, "https", once()) == [
            f"{host}/rocm/pytorch:x is not in the registry",
            f"{host}/broken:app could not be asked for: "
            f"{host}/broken:app: the registry answers 500 Internal Server Error",
        ]


@pytest.mark.parametrize("name", ["exporting cache to registry", "[app] exporting cache to registry"])
def test_failed_cache_exports(name: str) -> None:
    log = [
        f"#9 {name}",
        "#9 preparing build cache for export",
        "#8 ERROR: another step",
        "#9 ERROR: error writing layer blob: refused",
        "#10 exporting cache to registry",
        "#10 DONE 1.0s",
    ]
    assert buildkit.failed_cache_exports(log) == [f"{name}: error writing layer blob: refused"]
