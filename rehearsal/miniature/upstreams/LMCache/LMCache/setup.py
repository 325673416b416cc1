"""Builds as LMCache does: its C++ extensions always, and GPU sources turned into HIP when BUILD_WITH_HIP says so."""

import os
import sys
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).absolute().parent
BUILD_WITH_HIP = os.environ.get("BUILD_WITH_HIP", "0") == "1"


def requirements(name):
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def cpp_extensions(cpp_extension):
    options = {"include_dirs": ["csrc"], "extra_compile_args": {"cxx": ["-O3", "-std=c++17"]}}
    return [
        cpp_extension.CppExtension("lmcache.native_storage_ops", ["csrc/storage_manager/ttl_lock.cpp"], **options),
        cpp_extension.CppExtension("lmcache.lmcache_fs", ["csrc/storage_backends/fs.cpp"], **options),
    ]


def rocm_extensions(cpp_extension):
    from torch.utils.hipify import hipify_python

    if Path(os.environ.get("CXX", "c++")).name != "hipcc":
        sys.exit("GPU code is in C++ sources: build with CXX=hipcc")
    hipify_python.hipify(ROOT / "csrc", ROOT / "csrc", includes=["*.cu"], is_pytorch_extension=True)
    return [
        cpp_extension.CppExtension(
            "lmcache.c_ops",
            ["csrc/pybind.cpp", "csrc/mem_kernels.hip", "csrc/pos_kernels.hip"],
            include_dirs=["csrc", "/opt/rocm/include"],
            extra_compile_args={"cxx": ["-O3"]},
            define_macros=[("USE_ROCM", "1")],
        )
    ]


if __name__ == "__main__":
    if not BUILD_WITH_HIP:
        sys.exit("this LMCache is for ROCm alone: set BUILD_WITH_HIP=1")
    from torch.utils import cpp_extension

    setup(
        packages=["lmcache"],
        install_requires=[*requirements("common.txt"), *requirements("rocm_core.txt")],
        ext_modules=[*cpp_extensions(cpp_extension), *rocm_extensions(cpp_extension)],
        cmdclass={"build_ext": cpp_extension.BuildExtension},
    )
