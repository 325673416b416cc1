__version__ = "3.9.0"

from triton._C import libtriton

__all__ = ["__version__", "libtriton"]
