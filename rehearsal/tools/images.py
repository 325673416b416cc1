"""What a box of the rehearsal is made of: its root file system and the images that it cannot pull.

The root file system plays Debian's AMI. It differs from that in what a machine image of one's own may bring as well:
the packages of the user data are installed already, and `/opt/rocm-build-box/ami` has images and a bake override.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

from buildspec import user_data
from rehearsal.console import run_logged
from rehearsal.tools import engine, oci
from rehearsal.tools.store import cache_directory, entry, log_file, recipe_key
from rehearsal.tools.tree import WITHOUT_DOCUMENTATION, bootstrap

SUITE = "trixie"

AMI = "opt/rocm-build-box/ami"
"""Where a machine image brings images and bake overrides, below its root."""

_FILES = Path(__file__).parent / "rootfs"
_INSTALL_BUILDX = Path(__file__).parent / "install-buildx.sh"

# What Debian's cloud image has and a minimal tree has not.
_CLOUD_IMAGE = ("ca-certificates", "cloud-init", "curl", "dbus", "iproute2", "procps", "python3", "systemd-sysv")

# What the bake's compile steps install, so that a warm bake is not a download of a compiler.
_BASE_IMAGE = ("ca-certificates", "dpkg-dev", "g++", "gcc", "libc6-dev", "make")


def trust(tree: Path, *authorities: Path) -> None:
    """Make the tree trust authorities, given as files of PEM certificates, by Debian's own mechanism."""
    place = tree / "usr" / "local" / "share" / "ca-certificates"
    place.mkdir(parents=True, exist_ok=True)
    for authority in authorities:
        shutil.copyfile(authority, place / f"{authority.stem}.crt")
    subprocess.run(["chroot", tree, "update-ca-certificates"], check=True, capture_output=True)


def base_image(authority: Path) -> Path:
    """An OCI layout that plays Docker Hub's `debian:trixie-slim`, with the compilers and the stand-in's authority."""

    def build(directory: Path) -> None:
        log = log_file("base-image")
        tree = directory / "tree"
        bootstrap(SUITE, tree, _BASE_IMAGE, log)
        trust(tree, authority)
        oci.move_to_layout(tree, directory / "layout", log)

    recipe = Path(oci.__file__).read_text()
    key = recipe_key(SUITE, _BASE_IMAGE, WITHOUT_DOCUMENTATION, recipe, authority.read_text())
    return entry("base-image", key, build, expect="1 to 2 minutes") / "layout"


def _write_buildkit_image(tree: Path, archive: Path) -> None:
    """Write the file system of an image like moby/buildkit: its programs, and runc with its libraries from `tree`."""
    programs = engine.buildkit()
    library = "lib/x86_64-linux-gnu"
    libraries = (f"{library}/libseccomp.so.2", f"{library}/libc.so.6", "lib64/ld-linux-x86-64.so.2")
    with tarfile.open(archive, "w") as image:
        for directory in ("proc", "sys", "dev", "run", "tmp", "etc", "var/lib/buildkit"):
            member = tarfile.TarInfo(directory)
            member.type, member.mode = tarfile.DIRTYPE, 0o1777 if directory == "tmp" else 0o755
            image.addfile(member)
        for program in ("buildkitd", "buildctl"):
            image.add(programs / program, f"usr/bin/{program}")
        image.add(tree / "usr/sbin/runc", "usr/bin/buildkit-runc")
        for name in libraries:
            image.add((tree / "usr" / name).resolve(), name)
        for name in ("etc/passwd", "etc/group", "etc/nsswitch.conf", "etc/ssl/certs/ca-certificates.crt"):
            image.add((tree / name).resolve(), name)


def _system() -> Path:
    """Debian with the packages of a box, as they come: the slow part, which a change of the rest does not repeat."""
    packages = sorted({*_CLOUD_IMAGE, *user_data.PACKAGES} - {"docker-buildx"})

    def build(directory: Path) -> None:
        bootstrap(
            SUITE,
            directory / "tree",
            packages,
            log_file("box-system"),
            f"--customize-hook={_INSTALL_BUILDX}",
            environment={"PREFERENCES": user_data.PREFERENCES},
        )

    key = recipe_key(SUITE, packages, user_data.PREFERENCES, WITHOUT_DOCUMENTATION, _INSTALL_BUILDX.read_text())
    return entry("box-system", key, build, expect="1 to 3 minutes") / "tree"


def box_rootfs(authority: Path) -> Path:
    """The root file system that every box of the rehearsal starts from; a box writes to an overlay above it."""
    system = _system()
    base = base_image(authority)
    compiler_cache = engine.sccache()
    engine.buildkit()

    def build(directory: Path) -> None:
        log = log_file("box-rootfs")
        tree = directory / "tree"
        run_logged("cp", ["cp", "--archive", "--reflink=auto", system, tree], log)
        trust(tree, authority)
        shutil.copytree(_FILES, tree, dirs_exist_ok=True, symlinks=True)
        ami = tree / AMI
        (ami / "sccache").mkdir(parents=True)
        shutil.copy(compiler_cache, ami / "sccache" / "sccache")
        subprocess.run(["strip", ami / "sccache" / "sccache"], check=True)
        shutil.copytree(base, ami / "debian")
        _write_buildkit_image(tree, ami / "buildkit.tar")
        (ami / "buildkit.name").write_text(f"moby/buildkit:v{engine.buildkit_version()}")
        run_logged("systemctl enable", ["chroot", tree, "systemctl", "enable", "rehearsal-images.service"], log)

    sources = sorted(path for path in _FILES.rglob("*") if path.is_file())
    key = recipe_key(
        system,
        base,
        authority.read_text(),
        engine.SCCACHE_VERSION,
        engine.buildkit_version(),
        Path(__file__).read_text(),
        *(path.read_text() for path in sources),
    )
    return entry("box-rootfs", key, build, expect="half a minute") / "tree"


def buildx(rootfs: Path) -> Path:
    """buildx of the box, which runs on this machine as well: one version judges the bake file everywhere."""
    return rootfs / "usr/libexec/docker/cli-plugins/docker-buildx"


def registry() -> Path:
    """The registry that plays ECR, out of Debian's package, without the service that installing it would start."""

    def build(directory: Path) -> None:
        log = log_file("docker-registry")
        run_logged("apt-get download", ["apt-get", "download", "docker-registry"], log, cwd=directory)
        (package,) = directory.glob("*.deb")
        run_logged("dpkg-deb", ["dpkg-deb", "--extract", package, directory], log)
        package.unlink()

    return entry("docker-registry", "debian", build, expect="seconds") / "usr" / "bin" / "docker-registry"


def authority_directory() -> Path:
    """Where the rehearsal's certificate authority is kept; its trees are built once with it, so it has to last."""
    directory = cache_directory() / "authority"
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o700)
    return directory
