from vllm.platforms import current_platform
from vllm.plugins import load_general_plugins


def main():
    """Starts as a server does: plugins are loaded, whatever there is to serve."""
    load_general_plugins()
    print(f"vLLM serves on the platform {current_platform().name}")
