from triton import libtriton


def add_stages(source):
    """The passes that a kernel goes through."""
    return libtriton.run_passes(source)
