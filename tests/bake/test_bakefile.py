"""The bake file: what it declares, and that buildspec.bakefile reads what Bake reads."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from buildspec import bakefile

# Written by hand from the seed page; the order is the page's.
DEFAULTS = {
    "PYTORCH_VERSION": "2.15.0",
    "ROCM_VERSION": "10.1.0-full",
    "PYTHON_VERSION": "3.14",
    "TRITON_VERSION": "3.9.0",
    "TRITON_REF": "aad2a60d958f945420c5c40936b37d411fb02e89",
    "AITER_REF": "v0.1.29",
    "TORCHVISION_REF": "v0.29.2",
    "ATOM_REF": "v0.1.9",
    "NIXL_REF": "v1.5.2",
    "UCX_REF": "v1.22.0",
    "VLLM_REF": "v0.33.0",
    "CUPY_REF": "v14.2.0",
    "LMCACHE_REF": "v0.5.7",
    "RUST_VERSION": "1.95",
    "GIT_REF": "",
    "ATOM_REPO": "https://github.com/ROCm/ATOM.git",
    "REGISTRY": "snoc-strix.fold-leaffish.ts.net:8080",
    "REGISTRY_NAME": "rocm-pytorch",
    "REGISTRY_INSECURE": "true",
    "SOURCE_URL": "https://github.com/sbates130272/rocm-pytorch-build",
    "PYTORCH_ROCM_ARCH": "gfx950",
    "USE_AITER": "ON",
    "USE_FLYDSL": "ON",
    "USE_FLASH_ATTENTION": "ON",
    "USE_ROCM_CK_SDPA_GFX12": "",
    "MAX_JOBS": "",
    "PREBUILD_KERNELS": "",
    "ROCM_PRUNE_PROFILE": "keep-toolchain",
    "SCCACHE_WEBDAV_HOST": "snoc-strix.fold-leaffish.ts.net",
    "SCCACHE_WEBDAV_PORT": "8081",
    "SCCACHE_WEBDAV_ENDPOINT": "",
    "SCCACHE_WEBDAV_KEY_PREFIX": "rocm-pytorch",
    "SCCACHE_BUCKET": "",
    "SCCACHE_REGION": "",
    "SCCACHE_S3_KEY_PREFIX": "rocm-pytorch",
    "SCCACHE_LOG": "warn",
    "SCCACHE_VERSION": "0.19.0",
    "REQUIRE_SCCACHE": "1",
    "FORCE_RECACHE": "false",
    "SDE_EPOCH": "1700000000",
    "SDE_ROCM": "",
    "SDE_BASE": "",
    "SDE_PYTORCH": "",
    "SDE_TRITON": "",
    "SDE_AITER": "",
    "SDE_RUNTIME": "",
    "SDE_NIXL": "",
    "SDE_VLLM": "",
    "SDE_LMCACHE": "",
    "SDE_CUPY": "",
    "SDE_TORCHVISION": "",
    "VCS_REF": "",
    "BUILD_DATE": "",
    "CACHE_TAG_SUFFIX": "",
    "PUBLISHED_INPUTS": "",
    "RUN_ID": "dev",
}


@pytest.fixture(scope="module")
def declared(checkout: Path) -> bakefile.BakeFile:
    return bakefile.load(checkout / "rocm-bake.hcl")


class Bake:
    """Bake on the checkout's file, with nothing in its environment but what a test sets."""

    def __init__(self, buildx: str, checkout: Path, home: Path) -> None:
        self.buildx, self.checkout, self.home = buildx, checkout, home

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.buildx, "bake", "--file=rocm-bake.hcl", *arguments],
            check=False,
            cwd=self.checkout,
            env={"HOME": str(self.home), "PATH": "/usr/bin:/bin", **variables},
            capture_output=True,
            text=True,
        )

    def target(self, name: str, **variables: str) -> dict[str, Any]:
        printed = self.run("--print", name, **variables)
        assert printed.returncode == 0, printed.stderr
        target: dict[str, Any] = json.loads(printed.stdout)["target"][name]
        return target


@pytest.fixture(scope="module")
def bake(buildx: str, checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Bake:
    return Bake(buildx, checkout, tmp_path_factory.mktemp("home"))


def test_variables_are_the_seed_pages_in_its_order(declared: bakefile.BakeFile) -> None:
    assert [(variable.name, variable.default) for variable in declared.variables.values()] == list(DEFAULTS.items())


def test_reader_and_bake_agree_on_every_variable(declared: bakefile.BakeFile, bake: Bake) -> None:
    listed = bake.run("--list=type=variables,format=json")
    assert listed.returncode == 0, listed.stderr
    # Bake leaves an empty value out of its answer in some versions.
    by_bake = {entry["name"]: (entry.get("value", ""), entry["description"]) for entry in json.loads(listed.stdout)}
    by_reader = {variable.name: (variable.default, variable.description) for variable in declared.variables.values()}
    assert by_reader == by_bake


def test_every_description_says_what_empty_means(declared: bakefile.BakeFile) -> None:
    silent = [v.name for v in declared.variables.values() if not re.search(r"\bempty\b", v.description, re.IGNORECASE)]
    assert silent == []


def test_reader_and_bake_agree_on_the_targets(declared: bakefile.BakeFile, bake: Bake) -> None:
    listed = bake.run("--list=type=targets,format=json")
    assert listed.returncode == 0, listed.stderr
    by_bake = {entry["name"] for entry in json.loads(listed.stdout)}
    by_reader = {name for name, target in declared.targets.items() if not target.is_abstract}
    assert by_reader == by_bake == {"sccache", "cache-probe"}
    assert {name: target.inherits for name, target in declared.targets.items()} == {
        "_common": (),
        "_compile": ("_common",),
        "sccache": ("_common",),
        "cache-probe": ("_compile",),
    }


def test_cache_probe_on_a_box(bake: Bake) -> None:
    target = bake.target(
        "cache-probe",
        REGISTRY="registry.example",
        REGISTRY_NAME="rocm-build-box/dev",
        SCCACHE_BUCKET="a-bucket",
        SCCACHE_REGION="eu-central-1",
        SCCACHE_S3_KEY_PREFIX="a-prefix",
        MAX_JOBS="7",
        VCS_REF="0123abc-dirty",
        BUILD_DATE="2026-01-02T03:04:05Z",
    )
    del target["description"]
    assert target == {
        "context": "docker",
        "contexts": {
            "debian": "docker-image://docker.io/library/debian:trixie-slim",
            "sccache": "target:sccache",
        },
        "dockerfile": "Dockerfile.cache-probe",
        "args": {
            "FORCE_RECACHE": "false",
            "MAX_JOBS": "7",
            "REQUIRE_SCCACHE": "1",
            "SCCACHE_BUCKET": "a-bucket",
            "SCCACHE_LOG": "warn",
            "SCCACHE_REGION": "eu-central-1",
            "SCCACHE_S3_KEY_PREFIX": "a-prefix",
            "SCCACHE_WEBDAV_ENDPOINT": "http://snoc-strix.fold-leaffish.ts.net:8081",
            "SCCACHE_WEBDAV_KEY_PREFIX": "rocm-pytorch",
            "SOURCE_DATE_EPOCH": "1700000000",
        },
        "labels": {
            "org.opencontainers.image.created": "2026-01-02T03:04:05Z",
            "org.opencontainers.image.revision": "0123abc-dirty",
            "org.opencontainers.image.source": "https://github.com/sbates130272/rocm-pytorch-build",
        },
        "tags": ["registry.example/rocm-build-box/dev:cache-probe"],
    }


def test_sccache_is_built_at_the_version_that_is_set(bake: Bake) -> None:
    target = bake.target("sccache", SCCACHE_VERSION="0.20.0")
    assert target["dockerfile"] == "Dockerfile.sccache"
    assert target["contexts"]["rust"] == "docker-image://docker.io/library/rust:1.95-slim-bookworm"
    assert target["args"] == {
        "SCCACHE_VERSION": "0.20.0",
        "SOURCE_DATE_EPOCH": "1700000000",
    }


def test_the_secret_is_given_on_the_command_line(bake: Bake, tmp_path: Path) -> None:
    source = tmp_path / "aws"
    source.touch()
    printed = bake.run("--print", f"--set=*.secrets=id=aws,src={source}", "cache-probe")
    assert printed.returncode == 0, printed.stderr
    assert json.loads(printed.stdout)["target"]["cache-probe"]["secret"] == [{"id": "aws", "src": str(source)}]


@pytest.mark.parametrize(
    ("variables", "endpoint"),
    [
        ({}, "http://snoc-strix.fold-leaffish.ts.net:8081"),
        (
            {"SCCACHE_WEBDAV_HOST": "store.example", "SCCACHE_WEBDAV_PORT": "99"},
            "http://store.example:99",
        ),
        (
            {"SCCACHE_WEBDAV_HOST": "store.example", "SCCACHE_WEBDAV_PORT": ""},
            "http://store.example",
        ),
        ({"SCCACHE_WEBDAV_ENDPOINT": "http://10.0.0.1:1/x"}, "http://10.0.0.1:1/x"),
        ({"SCCACHE_WEBDAV_HOST": ""}, ""),
    ],
)
def test_webdav_endpoint(bake: Bake, variables: dict[str, str], endpoint: str) -> None:
    assert bake.target("cache-probe", **variables)["args"]["SCCACHE_WEBDAV_ENDPOINT"] == endpoint


def test_bucket_without_region_is_refused(bake: Bake) -> None:
    refused = bake.run("--print", "cache-probe", SCCACHE_BUCKET="a-bucket")
    assert refused.returncode != 0
    assert (
        'SCCACHE_BUCKET is "a-bucket" but SCCACHE_REGION is empty: set SCCACHE_REGION to the bucket\'s region'
        in refused.stderr
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REGISTRY_INSECURE", "yes"),
        ("MAX_JOBS", "0"),
        ("MAX_JOBS", "4 "),
        ("REQUIRE_SCCACHE", "true"),
        ("FORCE_RECACHE", "1"),
    ],
)
def test_value_that_is_not_allowed_is_refused(bake: Bake, name: str, value: str) -> None:
    refused = bake.run("--print", "cache-probe", **{name: value})
    assert refused.returncode != 0
    assert f'{name} is "{value}": set it to ' in refused.stderr


@pytest.mark.parametrize(
    "name",
    sorted(set(DEFAULTS) - {"REGISTRY", "REGISTRY_NAME", "SCCACHE_REGION"}),
    ids=str,
)
def test_set_but_empty_is_no_error(bake: Bake, name: str) -> None:
    bake.target("cache-probe", **{name: ""})


def test_dockerfile_takes_every_argument_that_bake_passes(bake: Bake, checkout: Path) -> None:
    for name in ("cache-probe", "sccache"):
        target = bake.target(name)
        dockerfile = (checkout / "docker" / target["dockerfile"]).read_text()
        taken = set(re.findall(r"^ARG (\w+)$", dockerfile, re.MULTILINE))
        # BuildKit itself takes SOURCE_DATE_EPOCH.
        assert taken == set(target["args"]) - {"SOURCE_DATE_EPOCH"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'variable "A" {\n  default = \n}\n',
            r":2: not valid HCL: unexpected input at column \d+",
        ),
        (
            'variable "A" {\n  default = "x"\n',
            r":\d: not valid HCL: unexpected input at column \d+",
        ),
        (
            'variable "A" {\n  default = true\n  description = "d"\n}\n',
            ": variable A: default is True; write it as a literal string in double quotes",
        ),
        (
            'variable "A" {\n  default = "${B}"\n  description = "d"\n}\n',
            r": variable A: default is \"\$\{B\}\"; write it as a literal string in double quotes",
        ),
        (
            'variable "A" {\n  default = ""\n}\n',
            ": variable A: description is missing; write it as a literal string in double quotes",
        ),
        (
            'variable "A" {\n  default = ""\n  description = "d"\n}\n' * 2,
            ": variable A is declared a second time; keep one of the two",
        ),
        (
            'target "t" {\n  inherits = [x]\n}\n',
            ": target t: inherits is .*; write it as a list of literal",
        ),
        (
            'target "a" "b" {\n  inherits = []\n}\n',
            ": a target block has one name, in double quotes",
        ),
    ],
)
def test_reader_refuses(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "some-bake.hcl"
    path.write_text(text)
    with pytest.raises(bakefile.BakeFileError) as refused:
        bakefile.load(path)
    assert re.fullmatch(re.escape(str(path)) + message + ".*", str(refused.value))


def test_reader_reads_groups_and_escapes(tmp_path: Path) -> None:
    path = tmp_path / "some-bake.hcl"
    path.write_text(
        'group "default" {\n  targets = ["a", "b"]\n}\n'
        'variable "A" {\n  default = "say \\"x\\""\n  description = "d"\n}\n'
    )
    assert bakefile.load(path) == bakefile.BakeFile(
        variables={"A": bakefile.Variable("A", default='say "x"', description="d")},
        targets={},
        groups={"default": ("a", "b")},
    )
