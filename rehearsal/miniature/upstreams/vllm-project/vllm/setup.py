"""Builds as vLLM does: C++ and GPU sources by CMake, Rust by setuptools-rust, the version by git's tag and ROCm's."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from shutil import which

import torch
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools_scm import get_version
from torch.utils.cpp_extension import ROCM_HOME

ROOT = Path(__file__).absolute().parent


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


envs = load("envs", ROOT / "vllm/envs.py")
if envs.VLLM_TARGET_DEVICE != "rocm" or torch.version.hip is None:
    sys.exit("this vLLM is for ROCm alone: set VLLM_TARGET_DEVICE=rocm, and install a PyTorch for ROCm")


def rust_extensions():
    required = os.environ.get("VLLM_REQUIRE_RUST_FRONTEND", "0") == "1"
    return load("build_rust", ROOT / "tools/build_rust.py").rust_extensions(optional=not required)


def version():
    hip = Path(ROCM_HOME, ".info/version").read_text().strip().split("-")[0]
    return get_version(root=ROOT, write_to="vllm/_version.py") + "+rocm" + hip.replace(".", "")


def requirements(name="rocm.txt"):
    found = []
    for line in (ROOT / "requirements" / name).read_text().splitlines():
        if line.startswith("-r "):
            found += requirements(line.removeprefix("-r ").strip())
        elif line and not line.startswith("#"):
            found.append(line)
    return found


def launcher_options():
    if which("sccache") and not int(os.environ.get("VLLM_DISABLE_SCCACHE", "0")):
        return [f"-DCMAKE_{language}_COMPILER_LAUNCHER=sccache" for language in ("C", "CXX", "HIP")]
    return []


class CMakeExtension(Extension):
    def __init__(self, name):
        super().__init__(name, sources=[])


class CMakeBuild(build_ext):
    def build_extensions(self):
        folder = Path(self.build_temp).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        jobs = envs.MAX_JOBS or str(os.cpu_count())
        options = [
            "-DCMAKE_BUILD_TYPE=Release",
            f"-DVLLM_TARGET_DEVICE={envs.VLLM_TARGET_DEVICE}",
            f"-DVLLM_PYTHON_EXECUTABLE={sys.executable}",
            f"-DROCM_PATH={ROCM_HOME}",
            "-DCMAKE_JOB_POOL_COMPILE:STRING=compile",
            f"-DCMAKE_JOB_POOLS:STRING=compile={jobs}",
            *launcher_options(),
        ]
        subprocess.check_call(["cmake", "-GNinja", *options, ROOT], cwd=folder)
        names = [extension.name.removeprefix("vllm.") for extension in self.extensions]
        targets = [f"--target={name}" for name in names]
        subprocess.check_call(["cmake", "--build", ".", f"-j={jobs}", *targets], cwd=folder)
        for extension, name in zip(self.extensions, names, strict=True):
            prefix = Path(self.get_ext_fullpath(extension.name)).absolute().parents[1]
            subprocess.check_call(["cmake", "--install", ".", "--prefix", prefix, "--component", name], cwd=folder)


setup(
    version=version(),
    install_requires=requirements(),
    ext_modules=[CMakeExtension("vllm._C"), CMakeExtension("vllm._rocm_C")],
    cmdclass={"build_ext": CMakeBuild},
    rust_extensions=rust_extensions(),
    zip_safe=False,
)
