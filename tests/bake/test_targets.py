"""Every target and group, as Bake understands them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from scripts import version_check
from scripts.published import VERSION_LABEL
from tests.bake.effects import IMAGES
from tests.bake.support import CACHED, COMPILING, DEVICE, EVERY, Bake

GROUPS = {
    "default": {"runtime"},
    "all": EVERY - {"cache-probe"},
    "torch": {"triton", "pytorch", "torchvision"},
    "serving": {"atom", "nixl", "lmcache", "vllm"},
}

SIBLINGS = {
    "sccache": set(),
    "cache-probe": {"sccache"},
    "rocm": set(),
    "base": {"rocm"},
    "triton": {"sccache", "base"},
    "pytorch": {"sccache", "base"},
    "torchvision": {"sccache", "base", "pytorch"},
    "aiter": {"sccache", "base", "triton", "pytorch"},
    "atom": {"base"},
    "cupy-wheel": {"sccache", "base"},
    "cupy": {"base", "cupy-wheel"},
    "nixl": {"sccache", "base"},
    "lmcache": {"sccache", "base", "pytorch"},
    "vllm": {"sccache", "base", "pytorch"},
    "runtime": {"base", "triton", "pytorch", "torchvision", "aiter", "atom", "cupy-wheel", "nixl", "lmcache", "vllm"},
}

ARGS: dict[str, dict[str, str]] = {
    "sccache": {"SCCACHE_VERSION": "0.19.0"},
    "cache-probe": {},
    "rocm": {"ROCM_VERSION": "10.1.0-full"},
    "base": {"PYTHON_VERSION": "3.14"},
    "triton": {"TRITON_VERSION": "3.9.0", "TRITON_REF": "aad2a60d958f945420c5c40936b37d411fb02e89"},
    "pytorch": {
        "PYTORCH_VERSION": "2.15.0",
        "GIT_REF": "",
        "USE_AITER": "ON",
        "USE_FLASH_ATTENTION": "ON",
        "USE_ROCM_CK_SDPA_GFX12": "OFF",
    },
    "torchvision": {"TORCHVISION_REF": "v0.29.2"},
    "aiter": {"AITER_REF": "v0.1.29", "USE_FLYDSL": "ON", "PREBUILD_KERNELS": "0"},
    "atom": {"ATOM_REPO": "https://github.com/ROCm/ATOM.git", "ATOM_REF": "v0.1.9"},
    "cupy-wheel": {"CUPY_REF": "v14.2.0"},
    "cupy": {},
    "nixl": {"NIXL_REF": "v1.5.2", "UCX_REF": "v1.22.0"},
    "lmcache": {"LMCACHE_REF": "v0.5.7"},
    "vllm": {"VLLM_REF": "v0.33.0", "RUST_VERSION": "1.95"},
    "runtime": {"ROCM_PRUNE_PROFILE": "keep-toolchain"},
}

# Of the wheels; `make version-check` looks for them in the registry by these.
VERSIONS = {
    "triton": "3.9.0",
    "pytorch": "2.15.0",
    "torchvision": "v0.29.2",
    "aiter": "v0.1.29",
    "atom": "v0.1.9",
    "cupy-wheel": "v14.2.0",
    "nixl": "v1.5.2",
    "lmcache": "v0.5.7",
    "vllm": "v0.33.0",
}

COMPILE_ARGS = {
    "BUILDKIT_DOCKERFILE_CHECK": "skip=SecretsUsedInArgOrEnv",
    "FORCE_RECACHE": "false",
    "MAX_JOBS": "",
    "REQUIRE_SCCACHE": "1",
    "SCCACHE_BUCKET": "",
    "SCCACHE_LOG": "warn",
    "SCCACHE_REGION": "",
    "SCCACHE_S3_KEY_PREFIX": "rocm-pytorch",
    "SCCACHE_WEBDAV_ENDPOINT": "http://snoc-strix.fold-leaffish.ts.net:8081",
    "SCCACHE_WEBDAV_KEY_PREFIX": "rocm-pytorch",
}


def cache(tag: str) -> dict[str, str]:
    return {"type": "registry", "ref": f"{IMAGES}:{tag}", "registry.insecure": "true"}


def expected(name: str) -> dict[str, Any]:
    target: dict[str, Any] = {
        "context": "docker",
        "contexts": {
            "debian": "docker-image://docker.io/library/debian:trixie-slim",
            **{sibling: f"target:{sibling}" for sibling in SIBLINGS[name]},
        },
        "dockerfile": f"Dockerfile.{name}",
        "args": {
            "BUILDKIT_BUILD_NAME": f"{name} (dev)",
            "SOURCE_DATE_EPOCH": "1700000000",
            **ARGS[name],
            **(COMPILE_ARGS if name in COMPILING else {}),
            **({"PYTORCH_ROCM_ARCH": "gfx950"} if name in DEVICE else {}),
        },
        "labels": {
            "org.opencontainers.image.created": "",
            "org.opencontainers.image.revision": "",
            "org.opencontainers.image.source": "https://github.com/sbates130272/rocm-pytorch-build",
        },
        "tags": [f"{IMAGES}:{name}"],
        "attest": [{"type": "provenance", "disabled": True}],
        "output": [{"type": "image", "rewrite-timestamp": "true", "registry.insecure": "true"}],
    }
    if name in VERSIONS:
        target["labels"]["org.opencontainers.image.version"] = VERSIONS[name]
    if name == "sccache":
        target["contexts"]["rust"] = "docker-image://docker.io/library/rust:1.95-slim-bookworm"
    if name in CACHED:
        target["cache-from"] = [cache(f"{name}-cache"), cache(f"{name}-cache-ref")]
        target["cache-to"] = [
            {
                **cache(f"{name}-cache"),
                **{"mode": "max", "image-manifest": "true", "oci-mediatypes": "true", "ignore-error": "true"},
            }
        ]
    return target


@pytest.mark.parametrize("name", sorted(EVERY))
def test_target(bake: Bake, name: str) -> None:
    target = bake.target(name)
    assert target.pop("description")
    assert target == expected(name)


def test_version_check_finds_every_wheel_by_its_label(bake: Bake) -> None:
    defaults = version_check.effective(bake.checkout / "rocm-bake.hcl", {})
    looked_for = {release.image: defaults[name] for name, release in version_check.RELEASES.items() if release.image}
    labels = {name: target["labels"] for name, target in bake.print(*sorted(EVERY))["target"].items()}
    assert {name: of[VERSION_LABEL] for name, of in labels.items() if VERSION_LABEL in of} == looked_for == VERSIONS


@pytest.mark.parametrize("name", GROUPS)
def test_group(bake: Bake, name: str) -> None:
    printed = bake.print(name)
    # Bake names what a command line asks for "default".
    named = printed["group"].get(name, printed["group"]["default"])
    assert set(named["targets"]) == GROUPS[name]
    inputs = set(GROUPS[name])
    while more := {sibling for target in inputs for sibling in SIBLINGS[target]} - inputs:
        inputs |= more
    assert printed["target"].keys() == inputs


def test_every_stage_that_compiles_is_compiled_again_on_demand(bake: Bake, checkout: Path) -> None:
    for name in sorted(COMPILING):
        target = bake.target(name, FORCE_RECACHE="true")
        stages = re.split(r"^FROM .*? AS (\S+)$", (checkout / "docker" / target["dockerfile"]).read_text(), flags=re.M)
        compile_here = {
            stage for stage, steps in zip(stages[1::2], stages[2::2], strict=True) if "source=with-sccache.sh" in steps
        }
        assert compile_here
        assert compile_here <= set(target["no-cache-filter"])


def test_push_keeps_what_the_output_is_told(bake: Bake) -> None:
    assert bake.print("--push", "cache-probe")["target"]["cache-probe"]["output"] == [
        {"type": "image", "push": "true", "rewrite-timestamp": "true", "registry.insecure": "true"}
    ]
