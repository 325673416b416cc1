"""The real Dockerfiles of the whole stack, baked in miniature.

What this does not prove: that the real upstreams build; docs/miniature.md has what differs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from buildspec.box.status import BuildStatus
from tests.bake.support import DEFAULTS
from tests.boxes import BUILDER
from tests.miniature.conftest import COMPILED, TARGETS, Stack

# The first test waits for two boxes that bake everything.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

WITH_LAYER_CACHE = 'target "_common" {\n  no-cache = false\n}\n'


def test_the_second_box_compiles_nothing(stack: Stack) -> None:
    for status in (stack.cold, stack.warm):
        assert (status["state"], status["failingStep"], status["warnings"]) == ("succeeded", None, [])
    cold, warm = stack.cold["cache"], stack.warm["cache"]
    assert cold is not None
    assert warm is not None
    assert {step["step"] for step in cold["steps"]} >= set(COMPILED)
    assert [step["step"] for step in warm["steps"] if step["misses"]] == []
    assert {step["step"]: step["hits"] for step in warm["steps"]} == {
        step["step"]: step["hits"] + step["misses"] for step in cold["steps"]
    }
    # At the default level AITER compiles no kernel ahead.
    assert {step["step"] for step in warm["steps"] if not step["hits"]} == {"aiter"}
    assert cold["misses"] > 0
    assert [cache[kind] for cache in (cold, warm) for kind in ("errors", "writeErrors")] == [0, 0, 0, 0]


def test_nothing_is_out_of_the_reach_of_the_cache_but_what_rust_links(stack: Stack) -> None:
    reasons = {
        report["step"]: set(report["sccache"]["stats"]["not_cached"])
        for report in map(json.loads, re.findall(r"rocm-build-stats: (.*)", stack.kept.job.builds[0].log))
    }
    assert reasons.keys() == {*COMPILED, "ucx"}
    # The last two are cargo's questions to the compiler.
    expected = {"crate-type (bin)", "crate-type (cdylib)", "missing input", "-"}
    assert {step: why for step, why in reasons.items() if why} == {"vllm": expected}


def test_two_boxes_make_the_same_images(stack: Stack) -> None:
    assert stack.warm["images"].keys() == set(TARGETS)
    assert stack.warm["images"] == stack.cold["images"]


def test_every_image_and_layer_cache_is_in_the_registry(stack: Stack) -> None:
    name = stack.kept.job.foundation.outputs()["registryName"]
    pages = stack.kept.job.region.cloud.client("ecr").get_paginator("describe_images")
    tags = {
        tag
        for page in pages.paginate(repositoryName=name)
        for image in page["imageDetails"]
        for tag in image.get("imageTags", [])
    }
    # Of an input that is no target of the bake there is the layer cache alone.
    assert tags == {*TARGETS, *(f"{target}-cache" for target in (*TARGETS, "sccache"))}


SHOW = """\
import json
import os
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import torch, torchvision, triton, aiter, atom, cupy, nixl, lmcache, vllm


def show(name, *values):
    print("shown:", name, json.dumps(values), flush=True)


def generator(name):
    return metadata.distribution(name).read_text("WHEEL").split("Generator: ")[1].splitlines()[0]


show("torch", torch.__version__, torch.__config__.show(), torch.cuda.get_arch_list())
show("torchvision", torchvision.__version__, torchvision._C.gpu_architectures())
show("triton", triton.libtriton.version, triton.libtriton.backends)
show("aiter", aiter.PREBUILD, [aiter.module(name).info()["archs"] for name in aiter.PREBUILD["modules"]])
show("flydsl", any("flydsl" in line for line in metadata.requires("amd-aiter")), find_spec("flydsl") is not None)
show("cupy", cupy.cuda.compiled_architectures())
show("nixl", nixl.ucx(), nixl.plugin("UCX"), nixl.plugin("POSIX"), generator("nixl"))
show("lmcache", lmcache.__version__, lmcache.c_ops.info())
show("vllm", metadata.version("vllm"), vllm.info()["rocm_C"]["archs"], vllm.info()["rust_program"])
show("atom", os.environ.get("ATOM_DISABLE_VLLM_PLUGIN"))
show("rocm", sorted(path.name for path in Path("/opt/rocm").iterdir()))
"""
"""What each package of the miniature can say of how it was built, and what the image is like."""

IMPORTS = f"""\
target "imports" {{
  inherits = ["_common"]
  contexts = {{
    runtime = "target:runtime"
  }}
  no-cache          = false
  tags              = [image("imports")]
  dockerfile-inline = <<EOT
FROM runtime
RUN python <<'END'
{SHOW}END
RUN vllm
EOT
}}
"""


def shown(stack: Stack, variables: Mapping[str, str]) -> tuple[BuildStatus, dict[str, Any]]:
    """A bake of the runtime image, and what the packages in it say."""
    status = stack.bake(["imports"], variables, WITH_LAYER_CACHE + IMPORTS)
    assert (status["state"], status["failingStep"]) == ("succeeded", None)
    log = stack.log()
    # Starting a server loads every plugin.
    assert any(re.fullmatch(r"#\d+ \S+ vLLM serves on the platform rocm", line) for line in log)
    found = (re.fullmatch(r"#\d+ \S+ shown: (\S+) (.*)", line) for line in log)
    return status, {match[1]: json.loads(match[2]) for match in found if match}


def pinned(checkout: Path, name: str) -> str:
    """The version that the base image has of a build tool."""
    match = re.search(rf"^{name}==(\S+)", (checkout / "docker/build-tools.txt").read_text(), re.MULTILINE)
    assert match
    return match[1]


def built(checkout: Path) -> dict[str, Any]:
    """What the packages say at the bake file's defaults."""
    release = {name: value.removeprefix("v") for name, value in DEFAULTS.items()}
    settings = "USE_ROCM=ON, USE_FLASH_ATTENTION=ON, USE_ROCM_CK_SDPA=ON, USE_ROCM_CK_SDPA_GFX12=OFF"
    return {
        "torch": [release["PYTORCH_VERSION"], f"Build settings: {settings}, shape=2x3, sorted=abc", ["gfx950"]],
        "torchvision": [release["TORCHVISION_REF"], "gfx950"],
        "triton": [release["TRITON_VERSION"], "amd"],
        "aiter": [{"level": 0, "modules": [], "archs": ["gfx950"]}, []],
        "flydsl": [True, True],
        "cupy": [["gfx950"]],
        "nixl": [
            f"UCX {release['UCX_REF']} transports self,tcp,sysv settings tls,log_level",
            *("UCX: self sysv tcp", "POSIX: aio uring", f"setuptools ({pinned(checkout, 'setuptools')})"),
        ],
        "lmcache": [release["LMCACHE_REF"], "archs=gfx950 rotated=dbdif shape=2x3"],
        "vllm": [f"{release['VLLM_REF']}+rocm1010", "gfx950", "vllm-rs [0, 1, 2, 3, 0, 1] assistant=1,user=2"],
        "atom": ["1"],
        "rocm": [[".info", "bin", "include", "lib"]],
    }


def test_every_wheel_in_the_runtime_image_is_built_as_asked(stack: Stack, checkout: Path) -> None:
    _, found = shown(stack, {})
    assert found == built(checkout)


def test_a_skew_of_atom_and_vllm_is_named_while_the_image_is_built(stack: Stack) -> None:
    (line,) = [line for line in stack.kept.job.builds[0].log.splitlines() if "atom-plugin: " in line]
    release = {name: DEFAULTS[name].removeprefix("v") for name in ("ATOM_REF", "VLLM_REF")}
    assert (
        f"atom-plugin: WARNING: the plugin of ATOM {release['ATOM_REF']} is made for vLLM 0.31.0, and "
        f"vLLM {release['VLLM_REF']} is installed: it is off in this image"
    ) in line


def results(status: BuildStatus) -> dict[str, tuple[int, int]]:
    """Hits and misses of each compile step that ran, rather than came from the layer cache."""
    assert status["cache"] is not None
    return {step["step"]: (step["hits"], step["misses"]) for step in status["cache"]["steps"]}


def compiled(status: BuildStatus) -> set[str]:
    """The compile steps that ran."""
    return set(results(status))


def others(status: BuildStatus, before: BuildStatus) -> set[str]:
    """The targets whose images have another digest than before."""
    return {target for target in TARGETS if status["images"][target] != before["images"][target]}


def test_a_new_builder_takes_every_step_from_the_layer_caches_of_the_registry(stack: Stack) -> None:
    stack.kept.run("docker", "rm", "--force", BUILDER)
    stack.kept.run("docker", "volume", "rm", f"{BUILDER}_state")
    status = stack.bake(TARGETS, {}, WITH_LAYER_CACHE)
    assert (status["state"], status["failingStep"]) == ("succeeded", None)
    assert compiled(status) == set()
    assert status["images"] == stack.cold["images"]


def test_a_moved_version_rebuilds_only_what_depends_on_it(stack: Stack) -> None:
    stack.miniature.upstreams.change("vllm-project/vllm", "NEWS", "a release later\n", "v0.33.1")
    moved = stack.bake(TARGETS, {"VLLM_REF": "v0.33.1"}, WITH_LAYER_CACHE)
    assert (moved["state"], moved["failingStep"]) == ("succeeded", None)
    assert compiled(moved) == {"vllm"}
    assert others(moved, stack.cold) == {"vllm", "runtime"}


def test_siblings_come_from_the_registry_when_they_are_published(stack: Stack) -> None:
    # After the test of the layer caches, because it writes ones without the steps of what it takes from the registry.
    status = stack.bake(["torchvision", "cupy"], {"PUBLISHED_INPUTS": "1"})
    assert (status["state"], status["failingStep"]) == ("succeeded", None)
    outputs = stack.kept.job.foundation.outputs()
    image = f"{outputs['registry']}/{outputs['registryName']}"
    found = {
        match[1] for line in stack.log() if (match := re.search(rf"load metadata for {re.escape(image)}:(\S+)$", line))
    }
    assert found == {"base", "pytorch", "cupy-wheel"}
    assert compiled(status) == {"torchvision"}
    # One that has only a wheel of its own is the same; one that stands on another image has that one's history as well.
    assert status["images"]["torchvision"] == stack.cold["images"]["torchvision"]


def test_a_ref_that_upstream_does_not_have_is_named(stack: Stack) -> None:
    status = stack.bake(["vllm"], {"VLLM_REF": "v0.33.99"})
    assert status["state"] == "failed"
    said = "\n".join(status["lastLines"])
    assert "VLLM_REF" in said
    assert "v0.33.99" in said
    assert "https://github.com/vllm-project/vllm" in said


def test_a_nixl_without_its_second_wheel_is_named(stack: Stack) -> None:
    meta = "src/bindings/python/nixl-meta/meson.build"
    stack.miniature.upstreams.change("ai-dynamo/nixl", meta, "# Elsewhere now.\n", "v1.5.3")
    status = stack.bake(["nixl"], {"NIXL_REF": "v1.5.3"}, WITH_LAYER_CACHE)
    assert status["state"] == "failed"
    assert "nixl: there is no nixl-*-none-any.whl below /build" in "\n".join(status["lastLines"])


def test_everything_is_compiled_again_on_demand(stack: Stack) -> None:
    """Neither the compile cache nor the layer cache is believed."""
    status = stack.bake(TARGETS, {"FORCE_RECACHE": "true"}, WITH_LAYER_CACHE)
    assert (status["state"], status["failingStep"]) == ("succeeded", None)
    cache, cold = status["cache"], stack.cold["cache"]
    assert cache is not None
    assert cold is not None
    assert cache["hits"] == 0
    assert {step["step"]: step["misses"] for step in cache["steps"]} == {
        step["step"]: step["hits"] + step["misses"] for step in cold["steps"]
    }
    assert status["images"] == stack.cold["images"]
    # The first one's layers have every build argument of this one.
    again = stack.bake(["triton", "nixl"], {"FORCE_RECACHE": "true"}, WITH_LAYER_CACHE)
    assert (again["state"], again["failingStep"]) == ("succeeded", None)
    assert results(again) == {step: of for step, of in results(status).items() if step in {"triton", "ucx", "nixl"}}
    assert again["images"] == {target: stack.cold["images"][target] for target in ("triton", "nixl")}


def test_other_settings(stack: Stack, checkout: Path) -> None:
    """Several architectures, kernels compiled ahead, no FlyDSL, and as little of ROCm as there can be."""
    variables = {
        "PYTORCH_ROCM_ARCH": "gfx942;gfx950",
        "PREBUILD_KERNELS": "1",
        "USE_FLYDSL": "OFF",
        "ROCM_PRUNE_PROFILE": "minimal",
    }
    status, found = shown(stack, variables)
    modules = ["module_activation", "module_rmsnorm", "module_fmha_v3_fwd"]
    ran = results(status)
    assert ran.pop("aiter") == (0, len(modules))
    # Sources for the GPU are compiled for the other list, and the host's come from the compile cache.
    assert ran.keys() == {"pytorch", "torchvision", "cupy-wheel", "lmcache", "vllm"}
    assert [step for step, (hits, misses) in ran.items() if not (hits and misses)] == []
    both = "gfx942,gfx950"
    version, settings, _ = built(checkout)["torch"]
    assert found == {
        **built(checkout),
        "torch": [version, settings, both.split(",")],
        "torchvision": [built(checkout)["torchvision"][0], both.replace(",", " ")],
        "aiter": [{"level": 1, "modules": modules, "archs": both.split(",")}, [both] * len(modules)],
        "flydsl": [False, False],
        "cupy": [both.split(",")],
        "lmcache": [built(checkout)["lmcache"][0], built(checkout)["lmcache"][1].replace("gfx950", both)],
        "vllm": [built(checkout)["vllm"][0], both, built(checkout)["vllm"][2]],
        "rocm": [[".info", "bin"]],
    }
