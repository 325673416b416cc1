import torch  # noqa: F401  # its libraries are those that the extensions want

from lmcache import c_ops, lmcache_fs, native_storage_ops
from lmcache._version import __version__

__all__ = ["__version__", "c_ops", "lmcache_fs", "native_storage_ops"]
