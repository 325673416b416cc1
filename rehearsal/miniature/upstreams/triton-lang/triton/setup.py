"""Builds as Triton does: setuptools runs CMake, whose library goes into the package."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).absolute().parent
BACKENDS = ["amd"]


def git(*arguments):
    return subprocess.check_output(["git", *arguments], cwd=ROOT, text=True).strip()


def get_version_suffix():
    commit = (
        ""
        if git("rev-parse", "--abbrev-ref", "HEAD").startswith("release")
        else f"+git{git('rev-parse', '--short=8', 'HEAD')}"
    )
    return commit + os.environ.get("TRITON_WHEEL_VERSION_SUFFIX", "")


class CMakeBuild(build_ext):
    def build_extension(self, ext):
        target = Path(self.get_ext_fullpath(ext.name)).absolute().parent
        build = Path(os.environ.get("TRITON_BUILD_DIR", ROOT / "build")) / "cmake"
        build.mkdir(parents=True, exist_ok=True)
        arguments = [
            "-GNinja",
            f"-DCMAKE_MAKE_PROGRAM={shutil.which('ninja')}",
            f"-DCMAKE_LIBRARY_OUTPUT_DIRECTORY={target}",
            f"-DPython3_EXECUTABLE:FILEPATH={sys.executable}",
            f"-DPython3_INCLUDE_DIR={sysconfig.get_path('platinclude')}",
            f"-DTRITON_CODEGEN_BACKENDS={';'.join(BACKENDS)}",
            f"-DTRITON_VERSION={TRITON_VERSION}",
            "-DCMAKE_BUILD_TYPE=TritonRelBuildWithAsserts",
        ]
        subprocess.check_call(["cmake", ROOT, *arguments], cwd=build)
        jobs = os.environ.get("MAX_JOBS", str(2 * os.cpu_count()))
        subprocess.check_call(["cmake", "--build", ".", f"-j{jobs}"], cwd=build)


TRITON_VERSION = "3.9.0" + get_version_suffix()

setup(
    name=os.environ.get("TRITON_WHEEL_NAME", "triton"),
    version=TRITON_VERSION,
    packages=[*find_packages(where="python"), *(f"triton.backends.{name}" for name in BACKENDS)],
    package_dir={"": "python", **{f"triton.backends.{name}": f"third_party/{name}/backend" for name in BACKENDS}},
    entry_points={"triton.backends": [f"{name} = triton.backends.{name}" for name in BACKENDS]},
    ext_modules=[Extension("triton._C.libtriton", sources=[])],
    cmdclass={"build_ext": CMakeBuild},
    zip_safe=False,
)
