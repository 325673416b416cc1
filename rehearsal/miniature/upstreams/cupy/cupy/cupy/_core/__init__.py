from cupy._core import _kernel, _routines_sorting

__all__ = ["_kernel", "_routines_sorting"]
