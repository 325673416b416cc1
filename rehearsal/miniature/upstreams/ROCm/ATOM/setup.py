"""Builds as ATOM does: Python alone, and its router in Rust only when ATOM_MESH_BUILD asks for it."""

import runpy
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).absolute().parent


class BuildMesh(build_py):
    def run(self):
        environment = runpy.run_path(str(ROOT / "atom/utils/envs.py"))["environment_variables"]
        if environment["ATOM_MESH_BUILD"]():
            subprocess.run(["cargo", "build", "--release"], cwd=ROOT / "atom/mesh", check=True)
        super().run()


setup(use_scm_version=True, cmdclass={"build_py": BuildMesh})
