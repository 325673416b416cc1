from cupy.cuda import thrust


def compiled_architectures():
    """What hipcc compiled the GPU sources for."""
    return thrust.architectures().split(",")


__all__ = ["compiled_architectures", "thrust"]
