"""info() shows what was built: the C++ modules, the architectures of the GPU code, and the Rust parts."""

from vllm._version import __version__

__all__ = ["__version__", "info"]


def info():
    import subprocess
    from pathlib import Path

    import torch  # noqa: F401  # its libraries are those that the extensions want

    from vllm import _C, _rocm_C, _rust_tool_parser

    front_end = subprocess.run([Path(__file__).parent / "vllm-rs"], check=True, capture_output=True, text=True)
    return {
        "C": _C.info(),
        "rocm_C": _rocm_C.info(),
        "rust_module": _rust_tool_parser.parse(),
        "rust_program": front_end.stdout.strip(),
    }
