"""The script that cloud-init runs: download, verification, unpacking, start, and the report of a failure."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ClientError

from buildspec.box import fetch_context
from buildspec.box.config import BuildContext
from tests.box.support import BUCKET, INSTANCE, box_config

KEY = "contexts/context.tar.gz"
UNITS = {
    "buildspec/box/units/rocm-build.service": (0o644, b"[Service]\n"),
    "buildspec/box/units/rocm-build-firewall.service": (0o644, b"[Service]\n"),
}


def archive(files: dict[str, tuple[int, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, (mode, content) in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@pytest.fixture
def box(aws: str, places: Path, systemctl: Path, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: ARG001  # fixtures take no usefixtures
    """A box after cloud-init has written its files; the build context is in the bucket. Its directory is returned."""
    directory = places / "opt/rocm-build-box"
    monkeypatch.setattr(fetch_context, "CONFIG_FILE", places / "box.json")
    monkeypatch.setattr(fetch_context, "INSTANCE_ID_FILE", places / "instance-id")
    monkeypatch.setattr(fetch_context, "CONTEXT_DIRECTORY", directory)
    monkeypatch.setattr(fetch_context, "PAUSE_SECONDS", 0.0)
    content = archive({"rocm-bake.hcl": (0o644, b"target"), **UNITS})
    put_context(places, content)
    return directory


def put_context(places: Path, content: bytes, **changes: Any) -> None:
    boto3.client("s3", region_name="us-east-1").put_object(Bucket=BUCKET, Key=KEY, Body=content)
    context = BuildContext(KEY, hashlib.sha256(content).hexdigest())
    (places / "box.json").write_text(box_config(**{"context": context, **changes}).to_json())


def reported() -> dict[str, Any]:
    s3 = boto3.client("s3", region_name="us-east-1")
    body = s3.get_object(Bucket=BUCKET, Key=f"builds/dev/{INSTANCE}/status.json")["Body"]
    status: dict[str, Any] = json.load(body)
    return status


def test_unpacks_and_starts(box: Path, systemctl: Path) -> None:
    assert fetch_context.main() == 0
    assert (box / "rocm-bake.hcl").read_bytes() == b"target"
    units = box / "buildspec/box/units"
    assert systemctl.read_text().splitlines() == [
        "is-active rocm-build-deadline.timer",
        f"link {units}/rocm-build-firewall.service {units}/rocm-build.service",
        "start rocm-build-firewall.service docker.service rocm-build-credentials.socket",
        "start --no-block rocm-build.service",
    ]
    with pytest.raises(ClientError, match="NoSuchKey"):
        reported()


def test_what_the_ami_brought_stays_and_old_pieces_go(tmp_path: Path) -> None:
    destination = tmp_path / "opt"
    for name in ("ami/base.hcl", "docker/old", "rocm-bake.hcl"):
        (destination / name).parent.mkdir(parents=True, exist_ok=True)
        (destination / name).write_text("old")
    content = archive({"rocm-bake.hcl": (0o644, b"new"), "docker/run.sh": (0o755, b"#!/bin/sh\n")})
    fetch_context.unpack(content, hashlib.sha256(content).hexdigest(), destination)
    found = {str(path.relative_to(destination)): path.read_text() for path in destination.rglob("*") if path.is_file()}
    assert found == {"ami/base.hcl": "old", "rocm-bake.hcl": "new", "docker/run.sh": "#!/bin/sh\n"}
    assert (destination / "docker/run.sh").stat().st_mode & 0o777 == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["opt"]


@pytest.mark.parametrize("name", ["../outside", "/etc/outside"])
def test_archive_cannot_write_outside(tmp_path: Path, name: str) -> None:
    content = archive({name: (0o644, b"x")})
    destination = tmp_path / "opt"
    if name.startswith("/"):
        # The data filter takes the leading slash off.
        fetch_context.unpack(content, hashlib.sha256(content).hexdigest(), destination)
        assert (destination / name.lstrip("/")).read_bytes() == b"x"
        assert not Path(name).exists()
    else:
        with pytest.raises(tarfile.OutsideDestinationError):
            fetch_context.unpack(content, hashlib.sha256(content).hexdigest(), destination)
        assert list(destination.iterdir()) == []


def test_wrong_hash_is_reported_with_both_and_ends_the_box(box: Path, places: Path, systemctl: Path) -> None:
    content = archive(UNITS)
    wrong = BuildContext(KEY, "0" * 64)
    put_context(places, content, context=wrong)
    assert fetch_context.main() == 1
    status = reported()
    assert {**status, "startedAt": "", "updatedAt": "", "endedAt": ""} == {
        "runId": f"dev-{INSTANCE}",
        "instanceId": INSTANCE,
        "state": "failed",
        "phase": "fetch-context",
        "startedAt": "",
        "updatedAt": "",
        "endedAt": "",
        "exitCode": 1,
        "failingStep": "fetch-context",
        "lastLines": [
            f"the build context's SHA-256 is {hashlib.sha256(content).hexdigest()}, "
            f"the user data names {'0' * 64}; run pulumi up again"
        ],
        "cache": None,
        "images": {},
        "phases": [],
        "warnings": [],
    }
    assert not box.exists()
    assert systemctl.read_text() == "poweroff --no-block\n"


@pytest.mark.usefixtures("box")
def test_kept_box_stays_after_a_failure(places: Path, systemctl: Path) -> None:
    put_context(places, archive(UNITS), context=BuildContext(KEY, "0" * 64), keep_box=True)
    assert fetch_context.main() == 1
    assert reported()["state"] == "failed"
    assert systemctl.read_text() == ""


@pytest.mark.usefixtures("box")
def test_dependency_that_does_not_start_is_reported(systemctl: Path) -> None:
    command = "start rocm-build-firewall.service docker.service rocm-build-credentials.socket"
    (systemctl.parent / "systemctl-fails").write_text(command + "\n")
    assert fetch_context.main() == 1
    assert reported()["lastLines"] == [f"systemctl {command}: exit code 3: failed on request"]
    assert systemctl.read_text().splitlines()[-2:] == [command, "poweroff --no-block"]


@pytest.mark.usefixtures("box")
def test_no_build_without_its_deadline(systemctl: Path) -> None:
    (systemctl.parent / "systemctl-fails").write_text("is-active rocm-build-deadline.timer\n")
    assert fetch_context.main() == 1
    assert systemctl.read_text().splitlines() == [
        "is-active rocm-build-deadline.timer",
        "poweroff --no-block",
    ]


@pytest.mark.usefixtures("box")
def test_box_ends_when_nothing_can_be_reported(
    places: Path, systemctl: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (places / "box.json").write_text("{")
    assert fetch_context.main() == 1
    assert systemctl.read_text() == "poweroff --no-block\n"
    assert "no S3 client, the status cannot be stored" in capfd.readouterr().err


@pytest.mark.usefixtures("aws")
def test_missing_object_is_not_waited_for() -> None:
    s3 = boto3.client("s3", region_name="us-east-1")
    with pytest.raises(ClientError, match="NoSuchKey"):
        fetch_context.download(s3, BUCKET, "contexts/none", attempts=1000, pause=1000.0)


@pytest.mark.usefixtures("aws")
def test_refusal_is_waited_out(capfd: pytest.CaptureFixture[str]) -> None:
    """The first two answers are a 403, as S3 gives before a new role's policy has reached it."""
    s3 = boto3.client("s3", region_name="us-east-1")
    s3.put_object(Bucket=BUCKET, Key="contexts/a", Body=b"content")
    refusals = [_refusal(), _refusal()]
    s3.meta.events.register("before-send.s3.GetObject", lambda **_: refusals.pop() if refusals else None)
    assert fetch_context.download(s3, BUCKET, "contexts/a", attempts=3, pause=0.0) == b"content"
    assert capfd.readouterr().out.count("AccessDenied") == 2


@pytest.mark.usefixtures("aws")
def test_refusal_is_not_waited_out_for_ever() -> None:
    s3 = boto3.client("s3", region_name="us-east-1")
    asked: list[int] = []

    def refuse(**_: Any) -> Any:
        asked.append(1)
        return _refusal()

    s3.meta.events.register("before-send.s3.GetObject", refuse)
    with pytest.raises(ClientError, match="AccessDenied"):
        fetch_context.download(s3, BUCKET, "contexts/a", attempts=3, pause=0.0)
    assert len(asked) == 3


@pytest.mark.usefixtures("aws")
def test_no_network_is_waited_for(capfd: pytest.CaptureFixture[str]) -> None:
    s3 = boto3.client("s3", region_name="us-east-1", endpoint_url="http://127.0.0.1:9")
    with pytest.raises(Exception, match="Could not connect"):
        fetch_context.download(s3, BUCKET, "contexts/a", attempts=2, pause=0.0)
    assert "attempt 1 of 2" in capfd.readouterr().out


def _refusal() -> Any:
    class Raw(io.BytesIO):
        def stream(self, *_: Any, **__: Any) -> Any:
            yield self.read()

    headers = HTTPHeaders()
    headers["content-type"] = "application/xml"
    body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
    return AWSResponse("http://s3", 403, headers, Raw(body))
