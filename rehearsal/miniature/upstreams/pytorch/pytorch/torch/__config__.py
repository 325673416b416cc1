from torch import _C


def show():
    """How this PyTorch was built."""
    return _C._show_config()
