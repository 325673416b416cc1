"""Writes the HIP sources of this checkout from its CUDA sources."""

import sys
from pathlib import Path

ROOT = Path(__file__).absolute().parents[2]
sys.path.insert(0, str(ROOT / "torch/utils"))

from hipify import hipify_python  # noqa: E402

hipify_python.hipify(project_directory=str(ROOT), output_directory=str(ROOT), includes=["aten/src/ATen/native/cuda/*"])
