"""Compiles one kernel module: each source by hipcc for every architecture of GPU_ARCHS, by a ninja file of its own."""

import json
import os
import shlex
import subprocess
import sysconfig
from pathlib import Path

JIT = Path(__file__).absolute().parent
ROOT = JIT.parents[1]
ROCM_HOME = os.environ.get("ROCM_HOME", os.environ.get("ROCM_PATH", "/opt/rocm"))


def modules():
    return list(json.loads((JIT / "optCompilerConfig.json").read_text()))


def archs():
    """There is no GPU to ask where a wheel is built."""
    return [name for name in os.environ.get("GPU_ARCHS", "native").replace(",", ";").split(";") if name]


def build_module(name):
    sources = json.loads((JIT / "optCompilerConfig.json").read_text())[name]
    folder = JIT / "build" / name
    folder.mkdir(parents=True, exist_ok=True)
    flags = [
        *("-O3", "-std=c++20", "-fPIC", f"-DAITER_MODULE={name}"),
        f"-DPREBUILD_KERNELS={os.environ.get('PREBUILD_KERNELS', '0')}",
        *(f"--offload-arch={arch}" for arch in archs()),
        *(
            f"-I{path}"
            for path in [
                sysconfig.get_path("include"),
                ROOT / "csrc/include",
                ROOT / "3rdparty/composable_kernel/include",
            ]
        ),
    ]
    objects = {f"{source}.o": ROOT / "csrc/kernels" / source for source in sources}
    hipcc = f"{ROCM_HOME}/bin/hipcc"
    lines = [
        f"rule compile\n  command = {hipcc} -c $in -o $out {shlex.join(flags)}",
        f"rule link\n  command = {hipcc} -shared $in -o $out",
        *(f"build {output}: compile {source}" for output, source in objects.items()),
        f"build {JIT / name}.so: link {' '.join(objects)}",
    ]
    (folder / "build.ninja").write_text("\n".join(lines) + "\n")
    subprocess.check_call(["ninja", "-v", "-j", os.environ.get("MAX_JOBS", "1")], cwd=folder)
