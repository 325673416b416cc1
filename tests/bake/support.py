"""Bake on the checkout's file, and what the file has, written by hand from the seed page."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

# The order is the page's.
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

EVERY = {
    *(
        "sccache",
        "cache-probe",
        "rocm",
        "base",
        "triton",
        "pytorch",
        "torchvision",
        "aiter",
        "atom",
        "cupy-wheel",
        "cupy",
    ),
    *("nixl", "lmcache", "vllm", "runtime"),
}
CACHED = EVERY - {"cache-probe"}
COMPILING = {"cache-probe", "triton", "pytorch", "torchvision", "aiter", "cupy-wheel", "nixl", "lmcache", "vllm"}
DEVICE = {"pytorch", "torchvision", "aiter", "cupy-wheel", "lmcache", "vllm", "runtime"}


class Bake:
    """Bake with nothing in its environment but what a test sets."""

    def __init__(self, buildx: str, checkout: Path, home: Path, file: str = "rocm-bake.hcl") -> None:
        self.buildx, self.checkout, self.home, self.file = buildx, checkout, home, file

    def of(self, file: Path) -> Bake:
        """The same on another bake file."""
        return Bake(self.buildx, self.checkout, self.home, str(file))

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.buildx, "bake", f"--file={self.file}", *arguments],
            check=False,
            cwd=self.checkout,
            env={"HOME": str(self.home), "PATH": "/usr/bin:/bin", **variables},
            capture_output=True,
            text=True,
        )

    def print(self, *arguments: str, **variables: str) -> dict[str, Any]:
        printed = self.run("--print", *arguments, **variables)
        assert printed.returncode == 0, printed.stderr
        document: dict[str, Any] = json.loads(printed.stdout)
        return document

    def target(self, name: str, **variables: str) -> dict[str, Any]:
        target: dict[str, Any] = self.print(name, **variables)["target"][name]
        return target

    def flat(self, *arguments: str, **variables: str) -> dict[str, str]:
        """Every value that Bake prints, by its path from the target's name on, such as pytorch.cache-to.0.ref."""
        values: dict[str, str] = {}
        _flatten(self.print(*(arguments or sorted(EVERY)), **variables)["target"], "", values)
        return values


def _flatten(node: Any, path: str, values: dict[str, str]) -> None:
    if isinstance(node, dict | list):
        items = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in items:
            _flatten(value, f"{path}.{key}" if path else str(key), values)
    else:
        values[path] = node


def changes(before: dict[str, str], after: dict[str, str]) -> dict[str, str | None]:
    """What is another, or new, or (None) gone."""
    return {path: after.get(path) for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
