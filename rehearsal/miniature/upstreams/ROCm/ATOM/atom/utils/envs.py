import os

environment_variables = {
    "ATOM_MESH_BUILD": lambda: os.getenv("ATOM_MESH_BUILD", "1") == "1",
    "ATOM_DISABLE_VLLM_PLUGIN": lambda: os.getenv("ATOM_DISABLE_VLLM_PLUGIN", "0").lower() == "1",
}
