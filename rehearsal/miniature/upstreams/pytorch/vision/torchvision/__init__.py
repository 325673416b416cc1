import torch  # noqa: F401 - brings the libraries that the extension module is linked with

from torchvision import _C
from torchvision.version import __version__

__all__ = ["_C", "__version__"]
