"""Calls hipcc, which knows by itself, from HCC_AMDGPU_TARGET, which architectures to compile for."""

import os
import shlex
import subprocess


def compile_hip(source, built, ext):
    rocm_home = os.environ["ROCM_HOME"]
    hipcc = shlex.split(os.environ["HIPCC"]) if os.environ.get("HIPCC") else [f"{rocm_home}/bin/hipcc"]
    macros = [f"-D{name}={value}" for name, value in ext.define_macros]
    includes = [f"-I{path}" for path in ext.include_dirs]
    postargs = ["-O2", "-fPIC", "--include", "hip/hip_runtime.h", "--std=c++17"]
    subprocess.check_call([*hipcc, *macros, *includes, "-c", source, "-o", built, *postargs])
