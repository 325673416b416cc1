"""The build specification's small commands, and what surrounds them: preparing, logging in to ECR, units, firewall."""

from __future__ import annotations

import base64
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import boto3
import pytest

import buildspec
from buildspec import user_data
from buildspec.box import bake, credentials, ecr_credentials, preflight, prepare, status, verify
from buildspec.box import config as box
from buildspec.box.status import StatusFile
from tests.box.support import INSTANCE, box_config, executable, stats_line
from tests.box.test_registry import registry

HERE = Path(buildspec.__file__).parent / "box"
REGISTRY = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
COMPILE_STEP = "[cache-probe build 3/4] RUN --mount=type=secret,id=aws with-sccache"


# preflight


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ("github.com/docker/buildx 0.29.1+ds1 0.29.1+ds1-4", "0.29.1+ds1"),
        ("github.com/docker/buildx v0.24.0 1234567", "v0.24.0"),
        ("github.com/docker/buildx v1.0.0 1234567", "v1.0.0"),
    ],
)
def test_buildx_new_enough(output: str, version: str) -> None:
    assert preflight.check_buildx(output) == version


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (
            "github.com/docker/buildx 0.13.1+ds1-3",
            r"buildx 0.13.1\+ds1-3 is too old, 0.24 or newer is needed",
        ),
        ("github.com/docker/buildx v0.23.9 abc", "buildx v0.23.9 is too old"),
        (
            "docker: unknown command",
            "buildx says that its version is 'docker: unknown command'; 0.24 or newer is needed",
        ),
    ],
)
def test_buildx_too_old(output: str, message: str) -> None:
    with pytest.raises(preflight.PreflightError, match=message):
        preflight.check_buildx(output)


@pytest.mark.parametrize("version", ["20.10.0", "26.1.5+dfsg1", "29.0.0"])
def test_docker_new_enough(version: str) -> None:
    assert preflight.check_docker(version) == version


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("20.9.9", r"docker 20\.9\.9 is too old, 20\.10 or newer is needed; .* apt-cache policy docker\.io"),
        ("19.03.15", "docker 19.03.15 is too old"),
        ("", "docker says that its version is ''; 20.10 or newer is needed"),
    ],
)
def test_docker_too_old(output: str, message: str) -> None:
    with pytest.raises(preflight.PreflightError, match=message):
        preflight.check_docker(output)


@pytest.mark.parametrize(
    ("docker", "output"),
    [
        (None, "preflight: docker is not installed\n"),
        (
            "echo cannot connect; exit 1",
            "preflight: docker version --format {{.Server.Version}}: exit code 1: cannot connect\n",
        ),
    ],
)
def test_preflight_tells_what_is_missing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    docker: str | None,
    output: str,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if docker is not None:
        executable(tmp_path / "docker", f"#!/bin/sh\n{docker}\n")
    assert preflight.main() == 1
    assert capsys.readouterr().out == output


# bake


def test_bake_command(tmp_path: Path) -> None:
    (tmp_path / "ami").mkdir()
    for name in ("20-b.hcl", "10-a.hcl", "readme.txt"):
        (tmp_path / "ami" / name).touch()
    assert bake.command(tmp_path, ("one", "two")) == [
        *("docker", "buildx", "bake", "-f", "rocm-bake.hcl", "-f", "ami/10-a.hcl", "-f", "ami/20-b.hcl"),
        *("--progress=plain", "--push", "--metadata-file=/run/rocm-build/bake-metadata.json"),
        *("--set=*.secrets=id=aws,src=/run/rocm-build/aws", "one", "two"),
    ]


@pytest.mark.usefixtures("places")
@pytest.mark.parametrize(
    ("exit_code", "output"),
    [(0, ["bake begins"]), (3, ["bake begins", "ERROR: broken", "bake of cache-probe failed"])],
)
def test_a_failed_bake_names_its_targets(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    exit_code: int,
    output: list[str],
) -> None:
    broken = f"echo ERROR: broken; exit {exit_code}" if exit_code else ""
    executable(tmp_path / "bin/docker", f"#!/bin/sh\necho bake begins\n{broken}\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert bake.main() == exit_code
    assert capfd.readouterr().out.splitlines()[1:] == output


# prepare


def test_secrets_are_private_new_each_time_and_hold_no_credentials(tmp_path: Path) -> None:
    tokens = []
    for name in ("a", "b"):
        token_file, secret_file = tmp_path / f"token-{name}", tmp_path / f"aws-{name}"
        prepare.write_secrets(token_file, secret_file)
        assert [path.stat().st_mode & 0o777 for path in (token_file, secret_file)] == [0o600, 0o600]
        token = token_file.read_text().strip()
        assert re.fullmatch(r"[0-9a-f]{64}", token)
        assert secret_file.read_text() == (
            "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://172.17.0.1:7788/credentials\n"
            f"AWS_CONTAINER_AUTHORIZATION_TOKEN={token}\n"
        )
        tokens.append(token)
    assert tokens[0] != tokens[1]


def test_a_file_that_is_there_already_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("planted")
    with pytest.raises(FileExistsError):
        prepare.write_secrets(tmp_path / "token", tmp_path / "aws")


@pytest.mark.parametrize(
    ("registry", "config"),
    [
        (REGISTRY, {"credHelpers": {REGISTRY: "rocm-build-box"}}),
        ("ghcr.io", {}),
        ("registry.local:5000", {}),
        (f"evil.example/{REGISTRY}", {}),
    ],
)
def test_only_ecr_gets_the_credential_helper(registry: str, config: dict[str, dict[str, str]]) -> None:
    assert prepare.docker_config(registry) == config


@pytest.mark.usefixtures("places")
def test_prepare_writes_everything() -> None:
    box.CONFIG_FILE.write_text(box_config(bake_variables={"REGISTRY": REGISTRY}).to_json())
    assert prepare.main() == 0
    docker_config = box.RUNTIME_DIRECTORY / "docker/config.json"
    assert json.loads(docker_config.read_text()) == {"credHelpers": {REGISTRY: "rocm-build-box"}}
    assert docker_config.parent.stat().st_mode & 0o777 == 0o700
    # The service takes the token that the secret gives.
    assert credentials.token_from(box.TOKEN_FILE)() in box.SECRET_FILE.read_text()


# ECR


@pytest.mark.usefixtures("aws")
def test_login_is_ecrs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(REGISTRY + "\n"))
    assert ecr_credentials.main(["get"]) == 0
    token = boto3.client("ecr", region_name="us-east-1").get_authorization_token()["authorizationData"][0]
    username, _, password = base64.b64decode(token["authorizationToken"]).decode().partition(":")
    assert username == "AWS"
    login = json.loads(capsys.readouterr().out)
    assert login == {"ServerURL": REGISTRY, "Username": username, "Secret": password}


@pytest.mark.parametrize(
    ("server", "region"),
    [
        (REGISTRY, "us-east-1"),
        (f"https://{REGISTRY}/v2/", "us-east-1"),
        ("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn", "cn-north-1"),
    ],
)
def test_region_is_the_hosts(server: str, region: str) -> None:
    assert ecr_credentials.region_of(server) == region


@pytest.mark.parametrize("server", ["ghcr.io", f"{REGISTRY}.evil.example", f"evil.example/{REGISTRY}", ""])
def test_other_registries_get_no_login(server: str) -> None:
    with pytest.raises(ecr_credentials.HelperError, match="not a registry of ECR"):
        ecr_credentials.region_of(server)


@pytest.mark.parametrize("arguments", [["store"], ["erase"], ["list"], []])
def test_helper_only_gets(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert ecr_credentials.main(arguments) == 1
    assert "only get is supported" in capsys.readouterr().out


# verify


@pytest.fixture
def baked(places: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bake that wrote and read the cache, and pushed its image."""
    StatusFile(box.STATE_FILE).write(status.new(box_config(), INSTANCE))
    write_log(stats_line("cache-probe", 2.5, compile_requests=9, cache_hits=4, cache_misses=5, cache_writes=5))
    box.METADATA_FILE.write_text(json.dumps({"cache-probe": {"containerimage.digest": "sha256:1"}, "x": {}}))
    monkeypatch.setenv("CODEBUILD_BUILD_SUCCEEDING", "1")
    monkeypatch.setenv("PATH", f"{places / 'bin'}:/usr/bin:/bin")
    write_plan(places, {})
    return places


def write_plan(places: Path, target: dict[str, object]) -> None:
    """A docker whose bake file has this target and no other."""
    plan = json.dumps({"target": {"cache-probe": target}})
    executable(places / "bin/docker", f"#!/bin/sh\ncat <<'end'\n{plan}\nend\n")


def write_log(last_line: str) -> None:
    box.LOG_FILE.parent.mkdir(exist_ok=True)
    box.LOG_FILE.write_text(f"[build] bake\n#7 {COMPILE_STEP}\n#7 1.5 {last_line}\n#7 DONE 3.0s\n")


@pytest.mark.usefixtures("baked")
def test_statistics_and_digests_are_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    assert verify.main() == 0
    recorded = StatusFile(box.STATE_FILE).read()
    assert recorded["images"] == {"cache-probe": "sha256:1"}
    assert recorded["cache"] is not None
    assert (recorded["cache"]["hits"], recorded["cache"]["misses"]) == (4, 5)
    assert recorded["cache"]["compileSeconds"] == 2.5
    assert capsys.readouterr().out == (
        "compile cache: 1 steps, 9 requests, 4 hits, 5 misses, 0 errors, 0 write errors, 5 written, 2.5 s\n"
        "image: cache-probe sha256:1\n"
        "registry: 0 tags asked for\n"
    )


def test_a_promised_tag_that_is_not_there_fails_the_build(baked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with registry() as host:
        write_plan(
            baked,
            {
                "tags": [f"{host}/rocm/pytorch:app"],
                "output": [{"type": "image", "push": "true"}],
                "cache-to": [{"type": "registry", "ref": f"{host}/rocm/pytorch:app-cache", "ignore-error": "true"}],
            },
        )
        variables = {"REGISTRY": host, "REGISTRY_INSECURE": "true", "SCCACHE_BUCKET": ""}
        box.CONFIG_FILE.write_text(box_config(bake_variables=variables).to_json())
        with (box.LOG_FILE).open("a") as log:
            log.write("#9 exporting cache to registry\n#9 ERROR: error writing layer blob: refused\n")
        assert verify.main() == 1
    assert capsys.readouterr().out.splitlines()[2:] == [
        "registry: 2 tags asked for",
        "verify: a layer cache was not exported: exporting cache to registry: error writing layer blob: refused",
        f"verify: {host}/rocm/pytorch:app-cache is not in the registry",
    ]


@pytest.mark.usefixtures("baked")
@pytest.mark.parametrize(
    ("bucket", "exit_code"), [("cache-bucket", 1), ("", 0)], ids=["cache asked for", "no cache asked for"]
)
def test_cache_asked_for_and_not_used_fails_the_build(
    capsys: pytest.CaptureFixture[str], bucket: str, exit_code: int
) -> None:
    variables = {"REGISTRY": "r", "REGISTRY_INSECURE": "false", "SCCACHE_BUCKET": bucket}
    box.CONFIG_FILE.write_text(box_config(bake_variables=variables).to_json())
    write_log(stats_line("cache-probe", 2.5, cache_misses=5))
    assert verify.main() == exit_code
    assert ("the compile cache was asked for and not used: " in capsys.readouterr().out) == (exit_code == 1)
    recorded = StatusFile(box.STATE_FILE).read()["cache"]
    assert recorded is not None
    assert recorded["misses"] == 5


@pytest.mark.usefixtures("baked")
def test_cache_that_is_not_required_and_not_used_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUIRE_SCCACHE", "0")
    variables = {"REGISTRY": "r", "REGISTRY_INSECURE": "false", "SCCACHE_BUCKET": "cache-bucket"}
    box.CONFIG_FILE.write_text(box_config(bake_variables=variables).to_json())
    write_log('rocm-build-stats: {"step": "cache-probe", "seconds": 2.5, "sccache": null}')
    assert verify.main() == 0
    assert StatusFile(box.STATE_FILE).read()["warnings"] == [
        "the compile cache was asked for and not used: compile step without statistics: cache-probe"
    ]


@pytest.mark.usefixtures("baked")
def test_after_a_failed_bake_only_the_statistics_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEBUILD_BUILD_SUCCEEDING", "0")
    box.METADATA_FILE.unlink()
    write_log("make: error")
    assert verify.main() == 0
    recorded = StatusFile(box.STATE_FILE).read()
    assert (recorded["images"], recorded["cache"] is not None) == ({}, True)


@pytest.mark.usefixtures("baked")
def test_target_without_an_image_fails_the_build(capsys: pytest.CaptureFixture[str]) -> None:
    box.METADATA_FILE.write_text(json.dumps({"cache-probe": {}}))
    assert verify.main() == 1
    assert "verify: no image was pushed for ['cache-probe']" in capsys.readouterr().out


# units and firewall


def unit(name: str) -> dict[str, dict[str, list[str]]]:
    """A unit file: section, key, all values."""
    found: dict[str, dict[str, list[str]]] = {}
    section: dict[str, list[str]] = {}
    for line in (HERE / "units" / name).read_text().splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), {})
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            section.setdefault(key, []).append(value)
    return found


def test_build_unit() -> None:
    service = unit("rocm-build.service")["Service"]
    assert service["Type"] == ["exec"], "RuntimeMaxSec= has no effect with oneshot"
    assert service["RuntimeDirectory"] == ["rocm-build"]
    assert service["RuntimeDirectoryMode"] == ["0700"]
    assert service["KillMode"] == ["mixed"]
    assert [service[key] for key in ("ExecStartPre", "ExecStart", "ExecStopPost")] == [
        ["/usr/bin/python3 -m buildspec.box.prepare"],
        ["/usr/bin/python3 -m buildspec.box.runner"],
        ["/usr/bin/python3 -m buildspec.box.finish"],
    ]
    required = set(unit("rocm-build.service")["Unit"]["Requires"][0].split())
    assert required == {"docker.service", "rocm-build-firewall.service", "rocm-build-credentials.socket"}
    assert required < set(unit("rocm-build.service")["Unit"]["After"][0].split())
    environment = " ".join(service["Environment"])
    assert "DOCKER_CONFIG=/run/rocm-build/docker" in environment
    assert "AWS_CA_BUNDLE=/etc/ssl/certs/ca-certificates.crt" in environment
    assert "PATH=/opt/rocm-build-box/buildspec/box/bin:" in environment


def test_modules_that_the_units_start_exist() -> None:
    named = set()
    for path in (HERE / "units").iterdir():
        named |= set(re.findall(r"-m (buildspec\.box\.\w+)", path.read_text()))
    assert named == {f"buildspec.box.{name}" for name in ("prepare", "runner", "finish", "credentials")}
    assert all((HERE / f"{name.rpartition('.')[2]}.py").is_file() for name in named)


def test_address_and_port_are_the_same_everywhere() -> None:
    address = f"{box.BRIDGE_ADDRESS}:{box.CREDENTIALS_PORT}"
    assert unit("rocm-build-credentials.socket")["Socket"] == {"ListenStream": [address], "FreeBind": ["yes"]}
    rules = (HERE / "firewall.nft").read_text()
    assert f"ip daddr {box.BRIDGE_ADDRESS} tcp dport {box.CREDENTIALS_PORT} accept" in rules
    assert f"http://{address}/credentials" == box.CREDENTIALS_URI
    assert f'"bip": "{box.BRIDGE_ADDRESS}/16"' in user_data.render(box_config())


def test_credential_helper_is_executable_and_named_as_docker_looks_for_it() -> None:
    helper = HERE / "bin" / f"docker-credential-{prepare.docker_config(REGISTRY)['credHelpers'][REGISTRY]}"
    assert helper.stat().st_mode & 0o111 == 0o111


@pytest.mark.parametrize("script", ["shell.sh", "canary/probe.sh", "bin/docker-credential-rocm-build-box"])
def test_shell_scripts_parse(script: str) -> None:
    subprocess.run(["bash", "-n", str(HERE / script)], check=True)
