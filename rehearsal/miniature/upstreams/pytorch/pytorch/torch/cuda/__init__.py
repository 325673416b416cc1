from torch import _C


def is_available():
    return False


def get_arch_list():
    """The architectures that the GPU code was compiled for."""
    return _C._cuda_getArchFlags().split()
