# vLLM 0.31 has it there; later ones moved it.
from vllm.platforms.rocm import RocmPlatform


class ATOMPlatform(RocmPlatform):
    name = "atom"
