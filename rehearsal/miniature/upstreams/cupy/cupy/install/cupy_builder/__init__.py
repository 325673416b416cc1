"""What setup.py builds with: the C++ of an extension by setuptools' own compiler, its GPU sources by hipcc."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension
from setuptools.command.build_ext import build_ext

from cupy_builder import _compiler

ROCM_HOME = os.environ.get("ROCM_HOME", "")


def extensions():
    if os.environ.get("CUPY_INSTALL_USE_HIP", "0") != "1":
        sys.exit("CUDA could not be found on your system: set CUPY_INSTALL_USE_HIP=1 to build for ROCm")
    if not Path(ROCM_HOME, "include/hip/hip_runtime.h").exists():
        sys.exit(f"Include files not found below ROCM_HOME {ROCM_HOME!r}")
    common = {
        "language": "c++",
        "include_dirs": ["cupy/_core", f"{ROCM_HOME}/include"],
        "define_macros": [("CUPY_USE_HIP", "1"), ("__HIP_PLATFORM_AMD__", "1")],
        "extra_compile_args": ["-std=c++17"],
    }
    return [
        Extension("cupy._core._kernel", ["cupy/_core/_kernel.cpp"], **common),
        Extension("cupy._core._routines_sorting", ["cupy/_core/_routines_sorting.cpp"], **common),
        Extension("cupy.cuda.thrust", ["cupy/cuda/thrust.cpp", "cupy/cuda/cupy_thrust.cu"], **common),
    ]


class BuildExtension(build_ext):
    """Several extensions at once, CUPY_NUM_BUILD_JOBS of them."""

    def build_extensions(self):
        with ThreadPoolExecutor(max_workers=int(os.environ.get("CUPY_NUM_BUILD_JOBS", "4"))) as threads:
            list(threads.map(self.build_extension, self.extensions))

    def build_extension(self, ext):
        gpu_sources = [source for source in ext.sources if source.endswith(".cu")]
        ext.sources = [source for source in ext.sources if source not in gpu_sources]
        for source in gpu_sources:
            built = Path(self.build_temp, source).with_suffix(".o")
            built.parent.mkdir(parents=True, exist_ok=True)
            _compiler.compile_hip(source, str(built), ext)
            ext.extra_objects = [*ext.extra_objects, str(built)]
        super().build_extension(ext)
