"""Builds as PyTorch does: CMake installs libraries and headers into torch/, setuptools adds the stub torch._C."""

import os
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).absolute().parent
TORCH = ROOT / "torch"
ROCM_PATH = Path(os.environ.get("ROCM_PATH", "/opt/rocm"))

# What the environment may say to CMake.
FORWARDED = ("BUILD_", "USE_", "CMAKE_")
FORWARDED_NAMES = ("PYTORCH_ROCM_ARCH",)


def on(name, default):
    return os.environ.get(name, default).upper() in ("1", "ON", "TRUE", "YES", "Y")


def git_revision():
    return subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True).strip()


def version():
    if release := os.environ.get("PYTORCH_BUILD_VERSION"):
        number = int(os.environ["PYTORCH_BUILD_NUMBER"])
        return f"{release}.post{number}" if number > 1 else release
    return f"{(ROOT / 'version.txt').read_text().strip()}+git{git_revision()[:7]}"


def check_submodules():
    for line in (ROOT / ".gitmodules").read_text().splitlines():
        key, _, folder = line.strip().partition(" = ")
        if key == "path" and not any((ROOT / folder).iterdir()):
            sys.exit(f"{folder} is empty. Did you run 'git submodule update --init --recursive'?")


def check_hipified():
    if not (ROOT / "aten/src/ATen/native/hip").is_dir():
        sys.exit("The sources are not hipified. Did you run 'python tools/amd_build/build_amd.py'?")


def write_version():
    hip = (ROCM_PATH / ".info/version").read_text().strip()
    TORCH.joinpath("version.py").write_text(
        f"__version__ = {version()!r}\ndebug = False\ncuda = None\ngit_version = {git_revision()!r}\nhip = {hip!r}\n"
    )


def build_libraries():
    folder = ROOT / "build"
    folder.mkdir(exist_ok=True)
    options = {
        name: value for name, value in os.environ.items() if name.startswith(FORWARDED) or name in FORWARDED_NAMES
    }
    options |= {"CMAKE_INSTALL_PREFIX": TORCH, "CMAKE_BUILD_TYPE": "Release", "Python_EXECUTABLE": sys.executable}
    definitions = [f"-D{name}={value}" for name, value in sorted(options.items())]
    subprocess.check_call(["cmake", "-GNinja", *definitions, ROOT], cwd=folder)
    jobs = ["-j", os.environ["MAX_JOBS"]] if "MAX_JOBS" in os.environ else []
    subprocess.check_call(["cmake", "--build", ".", "--target", "install", *jobs], cwd=folder)


if __name__ == "__main__":
    if not on("USE_ROCM", "1"):
        sys.exit("this PyTorch knows ROCm alone: set USE_ROCM=1")
    check_submodules()
    check_hipified()
    write_version()
    if any(command in sys.argv for command in ("build", "bdist_wheel", "install")):
        build_libraries()
    setup(
        version=version(),
        packages=find_packages(include=["torch", "torch.*"]),
        package_data={"torch": ["include/**/*", "lib/*.so", "share/**/*"]},
        ext_modules=[
            Extension(
                "torch._C",
                sources=["torch/csrc/stub.c"],
                libraries=["torch_python"],
                library_dirs=[str(TORCH / "lib")],
                extra_link_args=["-Wl,-rpath,$ORIGIN/lib"],
            )
        ],
        install_requires=["typing-extensions"],
        cmdclass={"build_ext": build_ext},
    )
