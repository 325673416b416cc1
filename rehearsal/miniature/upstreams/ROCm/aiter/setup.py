"""Builds as AITER does: the kernels of PREBUILD_KERNELS by its own JIT, its sources into aiter_meta."""

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

from setuptools import Distribution, setup

ROOT = Path(__file__).absolute().parent
FLYDSL = "flydsl @ git+https://github.com/ROCm/FlyDSL.git"
PREBUILD_KERNELS = int(os.environ.get("PREBUILD_KERNELS", "0"))
METADATA_ONLY = {"egg_info", "dist_info", "clean", "--version", "--name"}


def keep_or_replace_triton():
    try:
        metadata.version("triton")
    except metadata.PackageNotFoundError:
        return
    if not int(os.environ.get("AITER_USE_SYSTEM_TRITON", "0")):
        subprocess.check_call(["bash", ROOT / ".github/scripts/install_triton.sh"])


def wanted(module):
    if "_tune" in module:
        return False
    if PREBUILD_KERNELS == 1:
        return "mha" not in module or module.startswith("module_fmha_v3_fwd")
    if PREBUILD_KERNELS == 2:
        return "_bwd" not in module
    return module.startswith("module_fmha_v3")


def prebuild():
    """Compile the modules of the level, side by side, and leave a note of what was built for what."""
    sys.path.insert(0, str(ROOT / "aiter"))
    from jit import core

    if not (ROOT / "3rdparty/composable_kernel/include").is_dir():
        sys.exit("CK is needed by aiter: git submodule update --init --recursive")
    modules = [name for name in core.modules() if PREBUILD_KERNELS and wanted(name)]
    with ThreadPoolExecutor(max_workers=min(5, int(os.environ.get("MAX_JOBS", "1")))) as threads:
        list(threads.map(core.build_module, modules))
    note = {"level": PREBUILD_KERNELS, "modules": modules, "archs": core.archs()}
    (ROOT / "aiter/jit/prebuilt.json").write_text(json.dumps(note, sort_keys=True) + "\n")


def prepare_packaging():
    meta = ROOT / "aiter_meta"
    shutil.rmtree(meta, ignore_errors=True)
    for folder in ("3rdparty", "hsa", "gradlib", "csrc"):
        shutil.copytree(ROOT / folder, meta / folder, ignore=shutil.ignore_patterns(".git"))
    (meta / "__init__.py").touch()
    (ROOT / "aiter/install_mode").write_text("install")


class PlatformDistribution(Distribution):
    def has_ext_modules(self):
        return True


keep_or_replace_triton()
prepare_packaging()
if len(sys.argv) > 1 and sys.argv[1] not in METADATA_ONLY:
    prebuild()

setup(
    name="amd-aiter",
    use_scm_version=True,
    packages=["aiter_meta", "aiter", "aiter.jit", "aiter.jit.utils"],
    include_package_data=True,
    package_data={"": ["*"], "aiter_meta": ["**/*"]},
    python_requires=">=3.10",
    install_requires=["packaging", FLYDSL],
    distclass=PlatformDistribution,
)
shutil.rmtree(ROOT / "aiter_meta")
