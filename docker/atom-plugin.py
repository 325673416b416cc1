#!/usr/bin/env python3
"""Leave ATOM's plugin off in an image whose vLLM is not the one that the plugin is made for.

    atom-plugin

Neither project checks. vLLM loads every plugin that is installed, and one that does not fit fails when a server starts,
whatever that is to serve. So an image with a skew names it while it is built, and has the plugin off; ATOM's own server
is not the plugin's, and works. docs/atom-and-vllm.md has the ways out.
"""

from __future__ import annotations

import re
import sysconfig
from importlib import metadata
from pathlib import Path

from packaging.version import Version

TARGET = "atom/plugin/vllm/vllm-version.env"
"""Where ATOM says which vLLM its plugin is made for."""

OFF = 'import os; os.environ.setdefault("ATOM_DISABLE_VLLM_PLUGIN", "1")\n'
"""What Python runs at each start; who sets the variable decides."""


def made_for() -> str | None:
    """The release that the installed plugin is made for; None when it does not say."""
    for file in metadata.distribution("atom").files or []:
        if str(file) == TARGET and (found := re.search(r"^VLLM_VERSION=(\S+)$", file.read_text(), re.MULTILINE)):
            return found[1]
    return None


def main() -> None:
    """Compare, say what was found, and turn the plugin off unless it fits."""
    atom, vllm = metadata.version("atom"), Version(metadata.version("vllm")).base_version
    target = made_for()
    if target == vllm:
        print(f"atom-plugin: the plugin of ATOM {atom} is made for vLLM {vllm}, the one that is installed")
        return
    Path(sysconfig.get_path("purelib"), "atom-plugin-off.pth").write_text(OFF)
    about = f"is made for vLLM {target}" if target else f"does not say in {TARGET} which vLLM it is made for"
    release = f"VLLM_REF to v{target}, or " if target else ""
    print(
        f"atom-plugin: WARNING: the plugin of ATOM {atom} {about}, and vLLM {vllm} is installed: it is off in this "
        f"image, as with ATOM_DISABLE_VLLM_PLUGIN=1. To have it on, set {release}ATOM_REF, with ATOM_REPO for a fork, "
        f"to an ATOM made for vLLM {vllm}; ATOM_DISABLE_VLLM_PLUGIN=0 at run time loads it all the same"
    )


if __name__ == "__main__":
    main()
