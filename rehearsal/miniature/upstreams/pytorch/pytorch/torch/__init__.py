from torch import _C, cuda, version
from torch import __config__ as __config__
from torch.version import __version__

__all__ = ["_C", "__version__", "cuda", "version"]
