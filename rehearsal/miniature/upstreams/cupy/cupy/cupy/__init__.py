from cupy import _core, cuda
from cupy._version import __version__

__all__ = ["__version__", "_core", "cuda"]
