"""Builds as torchvision does: extension modules of PyTorch, whose CUDA sources become HIP sources first."""

import os
import subprocess
from pathlib import Path

import torch
from setuptools import find_packages, setup
from torch.utils.cpp_extension import ROCM_HOME, BuildExtension, CppExtension, CUDAExtension

ROOT = Path(__file__).absolute().parent
SOURCES = ROOT / "torchvision/csrc"
FORCE_CUDA = os.getenv("FORCE_CUDA", "0") == "1"
IS_ROCM = torch.version.hip is not None and ROCM_HOME is not None
WITH_GPU = (torch.cuda.is_available() and IS_ROCM) or FORCE_CUDA


def get_version():
    sha = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True).strip()
    release = (ROOT / "version.txt").read_text().strip()
    return os.getenv("BUILD_VERSION") or f"{release}+{sha[:7]}", sha


def get_requirements():
    pin = os.getenv("PYTORCH_VERSION")
    return [f"torch=={pin}" if pin else "torch"]


def make_extension():
    sources = [*SOURCES.glob("*.cpp"), *SOURCES.glob("ops/cpu/*.cpp")]
    macros = []
    if WITH_GPU:
        from torch.utils.hipify import hipify_python

        hipify_python.hipify(
            project_directory=str(ROOT), output_directory=str(ROOT), includes="torchvision/csrc/ops/cuda/*"
        )
        sources += SOURCES.glob("ops/hip/*.hip")
        macros += [("WITH_HIP", None)]
    extension = CUDAExtension if WITH_GPU else CppExtension
    return extension(
        name="torchvision._C",
        sources=sorted(str(source.relative_to(ROOT)) for source in sources),
        include_dirs=[SOURCES],
        define_macros=macros,
        extra_compile_args={"cxx": ["-g0"], "nvcc": []},
    )


if __name__ == "__main__":
    version, sha = get_version()
    (ROOT / "torchvision/version.py").write_text(f"__version__ = {version!r}\ngit_version = {sha!r}\n")
    setup(
        name="torchvision",
        version=version,
        packages=find_packages(exclude=("test",)),
        install_requires=get_requirements(),
        ext_modules=[make_extension()],
        cmdclass={"build_ext": BuildExtension.with_options(no_python_abi_suffix=True)},
        zip_safe=False,
    )
