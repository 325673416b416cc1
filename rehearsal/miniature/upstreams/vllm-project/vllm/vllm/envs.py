import os

VLLM_TARGET_DEVICE = os.environ.get("VLLM_TARGET_DEVICE", "cuda")
MAX_JOBS = os.environ.get("MAX_JOBS")
