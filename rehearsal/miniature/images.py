"""The images that play AMD's ROCm and the Rust toolchain: Debian's packages, and the folder `rocm` beside this file."""

from __future__ import annotations

import shutil
from pathlib import Path

from rehearsal.network import GIT_ADDRESS
from rehearsal.tools import oci
from rehearsal.tools.images import AMI, trust
from rehearsal.tools.store import entry, log_file, recipe_key
from rehearsal.tools.tree import WITHOUT_DOCUMENTATION, bootstrap

_SUITE = "forky"  # the oldest Debian with the Python and a Rust that rocm-bake.hcl's defaults name

_FILES = Path(__file__).parent

# What this machine trusts besides Debian's list: a proxy that it reaches the package registries through, say.
_HOST_AUTHORITIES = sorted(Path("/usr/local/share/ca-certificates").glob("*.crt"))
# Python's tools have a list of their own, and these variables lead them to the system's.
_BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
_ENVIRONMENT = (f"SSL_CERT_FILE={_BUNDLE}", f"PIP_CERT={_BUNDLE}")

# What Dockerfile.base installs on the real image: there already, so that a bake needs few downloads.
_ROCM_PACKAGES = (
    *("autoconf", "automake", "ca-certificates", "cmake", "g++", "gcc", "git", "libtool", "make", "ninja-build"),
    *("pkg-config", "python3-dev", "python3-venv", "xz-utils"),
    # Debian's Rust is spread over the system, so it cannot be copied out of an image of its own.
    *("cargo", "rustc"),
)

_GIT_CONFIG = f"""\
[url "http://{GIT_ADDRESS}/"]
	insteadOf = https://github.com/
"""


def machine_layer(authority: Path) -> Path:
    """A file system to lay over a box's: the miniature's images. `miniature.hcl` puts them in place."""

    def build(directory: Path) -> None:
        log = log_file("miniature")
        layouts = directory / "tree" / AMI
        tree = directory / "rocm"
        bootstrap(_SUITE, tree, _ROCM_PACKAGES, log)
        trust(tree, *_HOST_AUTHORITIES, authority)
        shutil.copytree(_FILES / "rocm", tree / "opt" / "rocm")
        (tree / "etc" / "gitconfig").write_text(_GIT_CONFIG)
        oci.move_to_layout(tree, layouts / "rocm", log, _ENVIRONMENT)
        tree = directory / "rust"
        programs = tree / "usr/local/cargo/bin"
        programs.mkdir(parents=True)
        (tree / "usr/local/rustup").mkdir()
        for program in ("cargo", "rustc"):
            # Not a link: rustc would look for its libraries beside the name that it was called by.
            (programs / program).write_text(f'#!/bin/sh\nexec /usr/bin/{program} "$@"\n')
            (programs / program).chmod(0o755)
        oci.move_to_layout(tree, layouts / "rust", log, _ENVIRONMENT)

    sources = [
        Path(__file__),
        Path(oci.__file__),
        *_HOST_AUTHORITIES,
        authority,
        *sorted(path for path in _FILES.glob("rocm/**/*") if path.is_file()),
    ]
    key = recipe_key(WITHOUT_DOCUMENTATION, *(path.read_text() for path in sources))
    return entry("miniature", key, build, expect="3 to 5 minutes") / "tree"
