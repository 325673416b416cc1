from atom.utils.envs import environment_variables


def register_platform():
    """The platform's class for vLLM to load, or None without the plugin."""
    if environment_variables["ATOM_DISABLE_VLLM_PLUGIN"]():
        return None
    return "atom.plugin.vllm.platform.ATOMPlatform"


def register_model():
    return None
