import importlib

for name in ("nixl_rocm", "nixl_cu13", "nixl_cu12"):
    try:
        variant = importlib.import_module(name)
        break
    except ModuleNotFoundError:
        continue
else:
    raise ImportError("no variant of NIXL is installed")

plugin, serialize, ucx = variant.plugin, variant.serialize, variant.ucx
