"""make version-check against upstreams and a registry on loopback: real git over HTTP, a real registry."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread

import pytest
from rich.console import Console

from rehearsal.tools import images
from scripts import published, version_check
from scripts.version_check import Finding, check

OCI = "application/vnd.oci.image"
MANIFEST = f"{OCI}.manifest.v1+json"
PIN = "aad2a60d958f945420c5c40936b37d411fb02e89"

# What each upstream has besides what the tests are about: tags that are no releases must not count.
UPSTREAMS = {
    "pytorch/pytorch": ["v2.14.0", "v2.15.0", "v2.16.0-rc1", "ciflow/trunk/1"],
    "ROCm/ROCm": ["rocm-10.0.3", "rocm-10.1.0"],
    "python/cpython": ["v3.13.9", "v3.14.0", "v3.14.2", "v3.15.0a1"],
    "triton-lang/triton": ["v3.8.0", "v3.9.0"],
    "ROCm/aiter": ["v0.1.29", "v0.1.30.dev1"],
    "pytorch/vision": ["v0.29.2"],
    "ROCm/ATOM": ["v0.1.9"],
    "ai-dynamo/nixl": ["v1.5.2", "0.9.0"],
    "openucx/ucx": ["v1.9.0", "v1.22.0", "v1.23.0-rc1"],
    "vllm-project/vllm": ["v0.9.2", "v0.33.0", "v0.34.0rc2"],
    "cupy/cupy": ["v14.2.0"],
    "LMCache/LMCache": ["v0.5.7"],
    "mozilla/sccache": ["v0.19.0"],
}
FILES = {
    "pytorch/pytorch": {".ci/docker/ci_commit_pins/triton.txt": f"{PIN}\n"},
    "ROCm/ATOM": {"atom/plugin/vllm/vllm-version.env": "VLLM_COMMIT=db9527a4\nVLLM_VERSION=0.33.0\n"},
    "vllm-project/vllm": {"rust-toolchain.toml": '[toolchain]\nchannel = "1.95"\n'},
}
WHEELS = {
    "pytorch": "2.15.0",
    "triton": "3.9.0",
    "aiter": "v0.1.29",
    "torchvision": "v0.29.2",
    "atom": "v0.1.9",
    "nixl": "v1.5.2",
    "vllm": "v0.33.0",
    "cupy-wheel": "v14.2.0",
    "lmcache": "v0.5.7",
}


class GitHost:
    """Plays github.com: repositories in a folder, served by git's own HTTP backend."""

    def __init__(self, root: Path) -> None:
        self.root = root
        backend = Path(git("--exec-path").strip()) / "git-http-backend"

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                environment = {
                    **os.environ,
                    "GIT_PROJECT_ROOT": str(root),
                    "GIT_HTTP_EXPORT_ALL": "1",
                    "PATH_INFO": path,
                    "QUERY_STRING": query,
                    "REQUEST_METHOD": self.command,
                    "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                    "CONTENT_LENGTH": str(len(body)),
                    "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                    "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                }
                answer = subprocess.run([backend], input=body, env=environment, capture_output=True, check=False).stdout
                head, _, content = answer.partition(b"\r\n\r\n")
                headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
                self.send_response(int(headers.pop("Status", "200 OK").split()[0]))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_POST = do_GET  # noqa: N815  (the name that the base class looks for)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/"
        Thread(target=self.server.serve_forever, daemon=True).start()

    def tag(self, name: str, tag: str) -> None:
        git("tag", tag, directory=self.root / f"{name}.git")

    def untag(self, name: str, tag: str) -> None:
        git("tag", "-d", tag, directory=self.root / f"{name}.git")


def git(*arguments: str, directory: Path | None = None) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"]
    command = ["git", *who, *arguments]
    return subprocess.run(command, cwd=directory, check=True, capture_output=True, text=True).stdout


def make_repository(root: Path, name: str, tags: list[str], files: dict[str, str]) -> None:
    work = root / f"{name}.work"
    work.mkdir(parents=True)
    git("init", "--quiet", directory=work)
    for path, text in {"README": "read me\n", **files}.items():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text(text)
    git("add", ".", directory=work)
    git("commit", "--quiet", "-m", "first", directory=work)
    for tag in tags:
        git("tag", tag, directory=work)
    bare = root / f"{name}.git"
    git("clone", "--quiet", "--bare", str(work), str(bare))
    shutil.rmtree(work)
    # As GitHub does it.
    git("config", "uploadpack.allowFilter", "true", directory=bare)
    git("config", "uploadpack.allowAnySHA1InWant", "true", directory=bare)


class Registry:
    """A real registry on loopback."""

    def __init__(self, directory: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.host = f"127.0.0.1:{probe.getsockname()[1]}"
        configuration = {
            "version": 0.1,
            "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": str(directory / "data")}},
            "http": {"addr": self.host},
        }
        file = directory / "config.yml"
        file.write_text(json.dumps(configuration))
        self.process = subprocess.Popen(
            [images.registry(), "serve", file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(500):
            try:
                self._send("GET", f"http://{self.host}/v2/")
            except OSError:
                time.sleep(0.02)
            else:
                return
        raise AssertionError("the registry did not start")

    @staticmethod
    def _send(method: str, url: str, body: bytes | None = None, media_type: str = "application/octet-stream") -> str:
        request = urllib.request.Request(url, body, {"Content-Type": media_type}, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return str(answer.headers.get("Location", ""))

    def _blob(self, content: bytes) -> dict[str, object]:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        location = self._send("POST", f"http://{self.host}/v2/rocm-pytorch/blobs/uploads/", b"")
        self._send("PUT", f"{location}{'&' if '?' in location else '?'}digest={digest}", content)
        return {"digest": digest, "size": len(content)}

    def _manifest(self, config: dict[str, object], reference: str | None = None) -> tuple[str, int]:
        """Push a manifest without layers under a tag, or by its digest alone; its digest and size."""
        described = {"mediaType": f"{OCI}.config.v1+json", **self._blob(json.dumps(config).encode())}
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": []}
        content = json.dumps(manifest).encode()
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self._send("PUT", f"http://{self.host}/v2/rocm-pytorch/manifests/{reference or digest}", content, MANIFEST)
        return digest, len(content)

    def push(self, tag: str, labels: dict[str, str], *, attested: bool = False) -> None:
        """An image; with `attested` in an index behind an attestation, as buildx pushes it."""
        image: dict[str, object] = {"architecture": "amd64", "os": "linux", "config": {"Labels": labels}}
        if not attested:
            self._manifest(image, tag)
            return
        attestation: dict[str, object] = {"architecture": "unknown", "os": "unknown"}
        entries = []
        for config in (attestation, image):
            digest, size = self._manifest(config)
            platform = {"os": config["os"], "architecture": config["architecture"]}
            entries.append({"mediaType": MANIFEST, "digest": digest, "size": size, "platform": platform})
        index = {"schemaVersion": 2, "mediaType": f"{OCI}.index.v1+json", "manifests": entries}
        url = f"http://{self.host}/v2/rocm-pytorch/manifests/{tag}"
        self._send("PUT", url, json.dumps(index).encode(), f"{OCI}.index.v1+json")


@pytest.fixture(scope="module")
def upstreams(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("upstreams")
    for name, tags in UPSTREAMS.items():
        make_repository(root, name, tags, FILES.get(name, {}))
    return root


@pytest.fixture
def github(upstreams: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHost]:
    shutil.copytree(upstreams, tmp_path / "github")
    host = GitHost(tmp_path / "github")
    # git's own way to name a mirror.
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.{host.address}.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://github.com/")
    yield host
    host.server.shutdown()
    host.server.server_close()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    found = Registry(tmp_path)
    for tag, version in WHEELS.items():
        found.push(tag, {"org.opencontainers.image.version": version}, attested=tag == "vllm")
    yield found
    found.process.terminate()
    found.process.wait()


@pytest.fixture(scope="module")
def defaults(checkout: Path) -> dict[str, str]:
    return version_check.effective(checkout / "rocm-bake.hcl", {})


@pytest.fixture
def values(defaults: dict[str, str], registry: Registry) -> dict[str, str]:
    return {**defaults, "REGISTRY": registry.host, "REGISTRY_INSECURE": "true"}


def to_do(findings: list[Finding]) -> list[tuple[str, str]]:
    assert [finding for finding in findings if finding.unknown] == []
    return [(finding.variable, finding.verdict) for finding in findings if finding.to_do]


@pytest.mark.usefixtures("github")
def test_all_as_it_should_be(values: dict[str, str]) -> None:
    findings = check(values)
    assert to_do(findings) == []
    assert [f.variable for f in findings if f.verdict == "current"] == list(version_check.RELEASES)
    assert [(f.variable, f.compared_with) for f in findings if f.verdict == "the same"] == [
        ("RUST_VERSION", "vLLM v0.33.0: Rust 1.95"),
        ("TRITON_REF", f"PyTorch v2.15.0: Triton {PIN}"),
        *(
            (name, f"wheel {values['REGISTRY']}/rocm-pytorch:{release.image}")
            for name, release in version_check.RELEASES.items()
            if release.image
        ),
    ]


def test_a_newer_release(github: GitHost, values: dict[str, str]) -> None:
    github.tag("openucx/ucx", "v1.100.0")
    github.tag("python/cpython", "v3.15.0")
    findings = check(values)
    assert to_do(findings) == [("PYTHON_VERSION", "newer release"), ("UCX_REF", "newer release")]
    assert [f.compared_with for f in findings if f.to_do] == ["newest release 3.15", "newest release 1.100.0"]


def test_a_tag_that_is_not_there(github: GitHost, values: dict[str, str]) -> None:
    github.untag("vllm-project/vllm", "v0.33.0")
    missing = "https://github.com/vllm-project/vllm.git has no"
    assert to_do(check(values)) == [
        ("VLLM_REF", f"{missing} tag v0.33.0"),
        ("RUST_VERSION", f"{missing} refs/tags/v0.33.0"),
    ]
    assert to_do(check({**values, "ROCM_VERSION": "10.1.1-full"}))[0] == (
        "ROCM_VERSION",
        "https://github.com/ROCm/ROCm.git has no release 10.1.1-full",
    )


@pytest.mark.usefixtures("github")
def test_a_tag_that_is_no_release_is_looked_for_as_well(values: dict[str, str]) -> None:
    for ref in ("v1.23.0-rc2", "refs/tags/none"):
        missing = f"https://github.com/openucx/ucx.git has no tag {ref}"
        assert to_do(check({**values, "UCX_REF": ref})) == [("UCX_REF", missing)]
    for ref in ("v1.23.0-rc1", "0" * 40):
        (finding,) = (finding for finding in check({**values, "UCX_REF": ref}) if finding.variable == "UCX_REF")
        assert (finding.verdict, finding.to_do) == ("no release number; not compared", False)


@pytest.mark.usefixtures("github")
@pytest.mark.parametrize("ref", ["main", "refs/heads/main", "v2.14.0"])
def test_git_ref_may_be_a_branch(values: dict[str, str], ref: str) -> None:
    findings = check({**values, "GIT_REF": ref})
    assert to_do(findings) == []
    assert f"PyTorch {ref}: Triton {PIN}" in {finding.compared_with for finding in findings}


@pytest.mark.usefixtures("github")
def test_a_wheel_of_the_same_tag_by_its_full_name(values: dict[str, str]) -> None:
    full = {"VLLM_REF": "refs/tags/v0.33.0", "LMCACHE_REF": "refs/tags/v0.5.7"}
    assert to_do(check({**values, **full})) == []


def test_wheels(github: GitHost, values: dict[str, str]) -> None:
    assert to_do(check({**values, "REGISTRY_NAME": "other"})) == [
        (name, f"not there; build it: make build-{release.image}")
        for name, release in version_check.RELEASES.items()
        if release.image
    ]
    github.tag("LMCache/LMCache", "v0.5.8")
    assert to_do(check({**values, "LMCACHE_REF": "v0.5.8"})) == [
        ("LMCACHE_REF", "is v0.5.7; build it: make build-lmcache")
    ]


@pytest.mark.usefixtures("github")
def test_a_wheel_without_a_version(values: dict[str, str], registry: Registry) -> None:
    registry.push("aiter", {})
    unknown = [finding for finding in check(values) if finding.unknown]
    assert [(f.variable, f.verdict) for f in unknown] == [
        ("AITER_REF", "has no label org.opencontainers.image.version; not compared")
    ]


@pytest.mark.usefixtures("github")
def test_rust_and_triton_that_the_others_do_not_ask_for(values: dict[str, str]) -> None:
    assert to_do(check({**values, "RUST_VERSION": "1.94", "TRITON_REF": "0" * 40})) == [
        ("RUST_VERSION", "differs: set RUST_VERSION to 1.95"),
        ("TRITON_REF", f"differs: set TRITON_REF to {PIN}"),
    ]


def test_the_skew(github: GitHost, values: dict[str, str]) -> None:
    plugin = "atom/plugin/vllm/vllm-version.env"
    make_repository(github.root, "example/ATOM", ["v0.1.9+mine"], {plugin: "VLLM_VERSION=0.31.0\n"})
    make_repository(github.root, "example/none", ["v0.1.9"], {})
    fork = {**values, "ATOM_REPO": "https://github.com/example/ATOM.git", "ATOM_REF": "v0.1.9+mine"}
    skew = ("ATOM_REF", "skew: VLLM_REF is v0.33.0; see docs/atom-and-vllm.md")
    assert skew in to_do(check(fork))
    none = {**values, "ATOM_REPO": "https://github.com/example/none.git"}
    assert to_do(check(none)) == [("ATOM_REF", f"https://github.com/example/none.git has no {plugin} at v0.1.9")]


def test_todays_defaults_are_reported_without_a_network(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "url.http://127.0.0.1:1/.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://github.com/")
    monkeypatch.setenv("REGISTRY", "127.0.0.1:1")
    assert version_check.main() == version_check.EXIT_TO_DO
    shown = capsys.readouterr().out
    assert "its plugin's target: vLLM 0.31.0, as recorded" in shown
    assert "skew: VLLM_REF is v0.33.0" in shown
    assert "Offline: no upstream answered, so nothing was compared with its newest release." in shown
    assert f"1 to do, {len(version_check.RELEASES) + 2 + len(WHEELS)} not compared, 0 as they should be" in shown
    # Another vLLM than the default has no skew left to report, and nothing answered.
    monkeypatch.setenv("VLLM_REF", "v0.31.0")
    assert version_check.main() == version_check.EXIT_UNKNOWN


@pytest.mark.usefixtures("github")
def test_exit_codes(
    values: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REGISTRY", values["REGISTRY"])
    assert version_check.main() == version_check.EXIT_CURRENT
    assert "0 to do, 0 not compared" in capsys.readouterr().out
    monkeypatch.setenv("REGISTRY", "127.0.0.1:1")
    assert version_check.main() == version_check.EXIT_UNKNOWN
    assert "Offline" not in capsys.readouterr().out
    monkeypatch.setenv("VLLM_REF", "v0.9.2")
    assert version_check.main() == version_check.EXIT_TO_DO


NO_IMAGE = "what it has as wheels:aiter is no image"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"\x15\x03\x01\x00\x02\x02\x46", ""),  # a refusal in TLS
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", ""),
        (b"HTTP/1.0 200 OK\r\n\r\n<html>", ""),
        (b"HTTP/1.0 200 OK\r\n\r\n[1]", NO_IMAGE),
        (b"HTTP/1.0 200 OK\r\n\r\n{}", NO_IMAGE),
        (b'HTTP/1.0 200 OK\r\n\r\n{"manifests": []}', NO_IMAGE),
        (b'HTTP/1.0 200 OK\r\n\r\n{"manifests": [{"digest": "x", "platform": null}]}', NO_IMAGE),
        (b'HTTP/1.0 200 OK\r\n\r\n{"manifests": [{"digest": "x"}]}', NO_IMAGE),
    ],
)
def test_a_registry_that_answers_something_else(answer: bytes, said: str) -> None:
    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline().strip():
                pass
            self.wfile.write(answer)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{server.server_address[1]}"
        with pytest.raises(published.UnreachableError) as refused:
            published.Registry(host, "wheels", insecure=True).version("aiter")
        server.shutdown()
    assert str(refused.value).startswith(f"{host}: {said}")


def test_nothing_is_cut_from_the_table() -> None:
    console = Console(width=60, record=True, file=io.StringIO())
    long = "v0.1.9 and a verdict that is much longer than the terminal is wide"
    version_check.show([Finding("ATOM_REF", "v0.1.9", "newest release", long, to_do=True)], console)
    assert "".join(long.split()) in "".join(console.export_text().split()).replace("│", "")
