"""Builds as CuPy does: its own builder, for ROCm when CUPY_INSTALL_USE_HIP says so."""

import sys
from pathlib import Path

from setuptools import setup

sys.path.insert(0, str(Path(__file__).absolute().parent / "install"))

import cupy_builder

setup(
    install_requires=["typing-extensions"],
    ext_modules=cupy_builder.extensions(),
    cmdclass={"build_ext": cupy_builder.BuildExtension},
)
