"""The seed page's example commands: what they do, and the command to use where the page's falls short."""

from __future__ import annotations

from dataclasses import dataclass

# Args given with --set reach every target that is built, its inputs included, past the rules of the bake file.
NOT_CHECKED = "the value is not checked, and the arg is given to every target"


@dataclass(frozen=True)
class Example:
    title: str
    arguments: tuple[str, ...]
    """The page's, after ``docker buildx bake -f rocm-bake.hcl``."""
    reaches: str | None
    """The path of the value that the page's command changes as it promises; None when it changes none."""
    shortcoming: str
    variables: dict[str, str]
    """The environment of the correction, ``docker buildx bake -f rocm-bake.hcl pytorch``."""
    value: str
    path: str
    """What the correction changes, to ``value``."""


EXAMPLES = [
    Example(
        "A different PyTorch version",
        ("--set", "*.args.PYTORCH_VERSION=2.13.0", "pytorch"),
        "pytorch.args.PYTORCH_VERSION",
        NOT_CHECKED,
        {"PYTORCH_VERSION": "2.13.0"},
        "2.13.0",
        "pytorch.args.PYTORCH_VERSION",
    ),
    Example(
        "A different ROCm base",
        ("--set", "*.args.ROCM_VERSION=7.14", "pytorch"),
        "rocm.args.ROCM_VERSION",
        NOT_CHECKED,
        {"ROCM_VERSION": "7.14"},
        "7.14",
        "rocm.args.ROCM_VERSION",
    ),
    Example(
        "A different registry",
        ("--set", "*.args.REGISTRY=myregistry.com:5000", "--set", "*.args.REGISTRY_NAME=rocm-pytorch", "pytorch"),
        None,
        "tags and layer caches are no args: images still go to the default registry",
        {"REGISTRY": "myregistry.com:5000", "REGISTRY_NAME": "rocm-pytorch"},
        "myregistry.com:5000/rocm-pytorch:pytorch",
        "pytorch.tags.0",
    ),
    Example(
        "A specific PyTorch ref",
        ("--set", "*.args.GIT_REF=refs/heads/develop", "pytorch"),
        "pytorch.args.GIT_REF",
        NOT_CHECKED,
        {"GIT_REF": "refs/heads/develop"},
        "refs/heads/develop",
        "pytorch.args.GIT_REF",
    ),
    Example(
        "Build even though the compiler cache is unreachable",
        ("--set", "*.args.REQUIRE_SCCACHE=0", "pytorch"),
        "pytorch.args.REQUIRE_SCCACHE",
        NOT_CHECKED,
        {"REQUIRE_SCCACHE": "0"},
        "0",
        "pytorch.args.REQUIRE_SCCACHE",
    ),
]
