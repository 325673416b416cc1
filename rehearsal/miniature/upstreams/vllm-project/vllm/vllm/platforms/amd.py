class AmdPlatform:
    name = "rocm"
