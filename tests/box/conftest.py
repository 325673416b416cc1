"""An AWS on loopback (moto's server), and the box's places in a directory of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
import requests
from moto.server import ThreadedMotoServer

from buildspec.box import config as box
from tests.box import support


@pytest.fixture(scope="package")
def moto_server() -> Iterator[str]:
    """The endpoint of a moto server."""
    # boto3's default session keeps credentials: neither those of other tests, nor these for other tests.
    boto3.setup_default_session()
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()
    boto3.setup_default_session()


@pytest.fixture
def aws(moto_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty AWS that every boto3 client of the test uses, with the build's bucket and log group in it."""
    requests.post(f"{moto_server}/moto-api/reset", timeout=10).raise_for_status()
    for name, value in {
        "AWS_ENDPOINT_URL": moto_server,
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_MAX_ATTEMPTS": "1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=support.BUCKET)
    boto3.client("logs", region_name="us-east-1").create_log_group(logGroupName="/rocm-build-box/prod")
    return moto_server


@pytest.fixture
def enforcing(aws: str) -> Iterator[str]:
    """An AWS that a test may make enforce IAM policies; afterwards it enforces none again."""
    yield aws
    support.reset_auth(aws, "Infinity")


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The box's files, under the returned directory; configuration and instance id are there."""
    runtime = tmp_path / "run"
    runtime.mkdir()
    for name, path in {
        "CONFIG_FILE": tmp_path / "box.json",
        "CONTEXT_DIRECTORY": tmp_path / "opt",
        "RUNTIME_DIRECTORY": runtime,
        "TOKEN_FILE": runtime / "token",
        "SECRET_FILE": runtime / "aws",
        "METADATA_FILE": runtime / "bake-metadata.json",
        "RUNNER_ERROR_FILE": runtime / "runner-error",
        "STATE_FILE": tmp_path / "lib/status.json",
        "LOG_FILE": tmp_path / "log/build.log",
        "INSTANCE_ID_FILE": tmp_path / "instance-id",
    }.items():
        monkeypatch.setattr(box, name, path)
    box.CONFIG_FILE.write_text(support.box_config().to_json())
    box.INSTANCE_ID_FILE.write_text(support.INSTANCE + "\n")
    return tmp_path


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A systemctl of the test's own, first on PATH; the returned file has a line of arguments for every call.

    A call fails when its arguments are in the file ``systemctl-fails`` beside it.
    """
    calls = tmp_path / "systemctl-calls"
    calls.touch()
    (tmp_path / "systemctl-fails").touch()
    support.executable(
        tmp_path / "bin/systemctl",
        '#!/bin/sh\nhere=$(dirname "$0")/..\necho "$*" >>"$here/systemctl-calls"\n'
        'if grep -qxF -e "$*" "$here/systemctl-fails"; then echo "failed on request"; exit 3; fi\n',
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return calls
