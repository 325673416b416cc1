from importlib import import_module
from importlib.metadata import entry_points


def current_platform():
    """The platform of the plugin that has one, or vLLM's own."""
    found = (plugin.load()() for plugin in entry_points(group="vllm.platform_plugins"))
    module, _, name = next((name for name in found if name), "vllm.platforms.amd.AmdPlatform").rpartition(".")
    return getattr(import_module(module), name)
