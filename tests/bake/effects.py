"""What every bake variable does and what it refuses, written by hand from the seed page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.bake.support import CACHED, COMPILING, DEVICE, EVERY

IMAGES = "snoc-strix.fold-leaffish.ts.net:8080/rocm-pytorch"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass(frozen=True)
class Effect:
    """What setting variables changes in all that Bake prints: path to new value, None for a value that is gone."""

    variables: dict[str, str]
    changes: dict[str, str | None]
    given: dict[str, str] = field(default_factory=dict)
    """What is set before as well as after."""


@dataclass(frozen=True)
class Refusal:
    """The message that setting variables is refused with."""

    variables: dict[str, str]
    message: str


def arg(targets: Iterable[str], name: str, value: str) -> dict[str, str | None]:
    return {f"{target}.args.{name}": value for target in targets}


def label(name: str, value: str) -> dict[str, str | None]:
    return {f"{target}.labels.org.opencontainers.image.{name}": value for target in EVERY}


def moved(images: str) -> dict[str, str | None]:
    """Every image and layer cache in another registry or repository."""
    return {
        **{f"{target}.tags.0": f"{images}:{target}" for target in EVERY},
        **{f"{target}.cache-from.0.ref": f"{images}:{target}-cache" for target in CACHED},
        **{f"{target}.cache-from.1.ref": f"{images}:{target}-cache-ref" for target in CACHED},
        **{f"{target}.cache-to.0.ref": f"{images}:{target}-cache" for target in CACHED},
    }


def published(siblings: dict[str, str]) -> dict[str, str | None]:
    return {
        f"{target}.contexts.{sibling}": f"docker-image://{IMAGES}:{sibling}"
        for target, names in siblings.items()
        for sibling in names.split()
    }


def own_arg(target: str, name: str, value: str) -> Effect:
    return Effect({name: value}, arg([target], name, value))


def version(target: str, name: str, value: str) -> Effect:
    """An argument that is the version of what the image holds as well."""
    changes = {**arg([target], name, value), f"{target}.labels.org.opencontainers.image.version": value}
    return Effect({name: value}, changes)


def epoch(name: str, targets: Iterable[str]) -> list[Effect]:
    changes = arg(targets, "SOURCE_DATE_EPOCH", "1234567890")
    return [
        Effect({name: "1234567890"}, changes),
        # Its own value keeps an image where it is when the common one moves.
        Effect({name: "1234567890"}, changes, given={"SDE_EPOCH": "1600000000"}),
    ]


S3 = {"SCCACHE_BUCKET": "a-bucket", "SCCACHE_REGION": "eu-central-1"}
FORK = {"ATOM_REPO": "https://git.example/ATOM.git", "ATOM_REF": "v0.1.9-fork.1"}

EFFECTS = [
    version("pytorch", "PYTORCH_VERSION", "2.13.0"),
    own_arg("rocm", "ROCM_VERSION", "7.14"),
    own_arg("base", "PYTHON_VERSION", "3.13"),
    version("triton", "TRITON_VERSION", "3.8.1"),
    *[
        effect(target, name, ref)
        for effect, target, name in [
            (own_arg, "triton", "TRITON_REF"),
            (version, "aiter", "AITER_REF"),
            (version, "torchvision", "TORCHVISION_REF"),
            (version, "atom", "ATOM_REF"),
            (version, "nixl", "NIXL_REF"),
            (own_arg, "nixl", "UCX_REF"),
            (version, "vllm", "VLLM_REF"),
            (version, "cupy-wheel", "CUPY_REF"),
            (version, "lmcache", "LMCACHE_REF"),
        ]
        for ref in ["v9.8.7", "9.8.7rc1", "refs/tags/rocm-9", COMMIT]
    ],
    own_arg("vllm", "RUST_VERSION", "1.96.1"),
    version("pytorch", "GIT_REF", "refs/heads/develop"),
    # What is built is the ref then, whatever the release is set to.
    Effect(
        {"PYTORCH_VERSION": "2.13.0"},
        arg(["pytorch"], "PYTORCH_VERSION", "2.13.0"),
        given={"GIT_REF": "refs/heads/main"},
    ),
    Effect(
        FORK,
        {
            **{f"atom.args.{name}": value for name, value in FORK.items()},
            "atom.labels.org.opencontainers.image.version": FORK["ATOM_REF"],
        },
    ),
    Effect({"REGISTRY": "registry.example:5000"}, moved("registry.example:5000/rocm-pytorch")),
    Effect({"REGISTRY_NAME": "rocm-build-box/dev"}, moved("snoc-strix.fold-leaffish.ts.net:8080/rocm-build-box/dev")),
    Effect(
        {"REGISTRY_INSECURE": "false"},
        {
            f"{target}.{attribute}.registry.insecure": "false"
            for target in EVERY
            for attribute in ["output.0", *(["cache-from.0", "cache-from.1", "cache-to.0"] if target in CACHED else [])]
        },
    ),
    Effect({"SOURCE_URL": "https://git.example/fork"}, label("source", "https://git.example/fork")),
    Effect({"PYTORCH_ROCM_ARCH": "gfx1100"}, arg(DEVICE, "PYTORCH_ROCM_ARCH", "gfx1100")),
    Effect({"PYTORCH_ROCM_ARCH": "gfx942;gfx950"}, arg(DEVICE, "PYTORCH_ROCM_ARCH", "gfx942;gfx950")),
    Effect({"PYTORCH_ROCM_ARCH": " gfx942:xnack- ; gfx950;"}, arg(DEVICE, "PYTORCH_ROCM_ARCH", "gfx942:xnack-;gfx950")),
    own_arg("pytorch", "USE_AITER", "OFF"),
    own_arg("aiter", "USE_FLYDSL", "OFF"),
    own_arg("pytorch", "USE_FLASH_ATTENTION", "OFF"),
    *[
        Effect(
            {"USE_ROCM_CK_SDPA_GFX12": "ON"},
            arg(["pytorch"], "USE_ROCM_CK_SDPA_GFX12", "ON"),
            given={"PYTORCH_ROCM_ARCH": gpus},
        )
        for gpus in ["gfx1200", "gfx1201", "gfx950;gfx1201"]
    ],
    *[
        Effect({"USE_ROCM_CK_SDPA_GFX12": "ON"}, {}, given={"PYTORCH_ROCM_ARCH": gpus})
        for gpus in ["", "gfx950", "gfx942;gfx1100", "gfx1250", "gfx1251"]
    ],
    Effect({"USE_ROCM_CK_SDPA_GFX12": "OFF"}, {}, given={"PYTORCH_ROCM_ARCH": "gfx1201"}),
    Effect({"MAX_JOBS": "7"}, arg(COMPILING, "MAX_JOBS", "7")),
    *[own_arg("aiter", "PREBUILD_KERNELS", level) for level in "123"],
    Effect({"PREBUILD_KERNELS": "0"}, {}),
    *[
        Effect({"PREBUILD_KERNELS": "1"}, arg(["aiter"], "PREBUILD_KERNELS", "1"), given={"PYTORCH_ROCM_ARCH": gpu})
        for gpu in ["gfx1201", "gfx1250"]
    ],
    Effect(
        {"PREBUILD_KERNELS": "2"},
        arg(["aiter"], "PREBUILD_KERNELS", "2"),
        given={"PYTORCH_ROCM_ARCH": "gfx942;gfx1200"},
    ),
    own_arg("runtime", "ROCM_PRUNE_PROFILE", "minimal"),
    Effect(
        {"SCCACHE_WEBDAV_HOST": "store.example"}, arg(COMPILING, "SCCACHE_WEBDAV_ENDPOINT", "http://store.example:8081")
    ),
    Effect(
        {"SCCACHE_WEBDAV_PORT": "99"},
        arg(COMPILING, "SCCACHE_WEBDAV_ENDPOINT", "http://snoc-strix.fold-leaffish.ts.net:99"),
    ),
    Effect(
        {"SCCACHE_WEBDAV_ENDPOINT": "http://10.0.0.1:1/x"},
        arg(COMPILING, "SCCACHE_WEBDAV_ENDPOINT", "http://10.0.0.1:1/x"),
    ),
    Effect(
        {"SCCACHE_WEBDAV_HOST": "a", "SCCACHE_WEBDAV_PORT": "1"},
        {},
        given={"SCCACHE_WEBDAV_ENDPOINT": "http://10.0.0.1:1/x"},
    ),
    Effect({"SCCACHE_WEBDAV_KEY_PREFIX": "a/b"}, arg(COMPILING, "SCCACHE_WEBDAV_KEY_PREFIX", "a/b")),
    # sccache ranks S3 above WebDAV, so the endpoint may stay.
    Effect(S3, {**arg(COMPILING, "SCCACHE_BUCKET", "a-bucket"), **arg(COMPILING, "SCCACHE_REGION", "eu-central-1")}),
    Effect({"SCCACHE_S3_KEY_PREFIX": "a/b"}, arg(COMPILING, "SCCACHE_S3_KEY_PREFIX", "a/b")),
    Effect({"SCCACHE_LOG": "debug"}, arg(COMPILING, "SCCACHE_LOG", "debug")),
    *[own_arg("sccache", "SCCACHE_VERSION", release) for release in ["0.8.0", "0.17.1", "0.20.0", "1.0.0"]],
    *[
        Effect({"SCCACHE_VERSION": release}, arg(["sccache"], "SCCACHE_VERSION", release), given=S3)
        for release in ["0.18.0", "1.0.0"]
    ],
    Effect({"REQUIRE_SCCACHE": "0"}, arg(COMPILING, "REQUIRE_SCCACHE", "0")),
    Effect(
        {"FORCE_RECACHE": "true"},
        {
            **arg(COMPILING, "FORCE_RECACHE", "true"),
            **{
                f"{target}.no-cache-filter.{number}": stage
                for target in COMPILING
                for number, stage in enumerate(["build", "ucx"])
            },
        },
    ),
    Effect({"SDE_EPOCH": "1234567890"}, arg(EVERY, "SOURCE_DATE_EPOCH", "1234567890")),
    *epoch("SDE_ROCM", ["rocm"]),
    *epoch("SDE_BASE", ["base"]),
    *epoch("SDE_PYTORCH", ["pytorch"]),
    *epoch("SDE_TRITON", ["triton"]),
    *epoch("SDE_AITER", ["aiter"]),
    *epoch("SDE_RUNTIME", ["runtime"]),
    *epoch("SDE_NIXL", ["nixl"]),
    *epoch("SDE_VLLM", ["vllm"]),
    *epoch("SDE_LMCACHE", ["lmcache"]),
    *epoch("SDE_CUPY", ["cupy", "cupy-wheel"]),
    *epoch("SDE_TORCHVISION", ["torchvision"]),
    Effect({"VCS_REF": "0123abc-dirty"}, label("revision", "0123abc-dirty")),
    Effect({"BUILD_DATE": "2026-01-02T03:04:05Z"}, label("created", "2026-01-02T03:04:05Z")),
    Effect({"BUILD_DATE": "2026-01-02T03:04:05+02:00"}, label("created", "2026-01-02T03:04:05+02:00")),
    Effect(
        {"CACHE_TAG_SUFFIX": "-ref"},
        {
            **{f"{target}.cache-from.0.ref": f"{IMAGES}:{target}-cache-ref" for target in CACHED},
            **{f"{target}.cache-from.1.ref": f"{IMAGES}:{target}-cache" for target in CACHED},
            **{f"{target}.cache-to.0.ref": f"{IMAGES}:{target}-cache-ref" for target in CACHED},
        },
    ),
    Effect(
        {"CACHE_TAG_SUFFIX": "_7"},
        {
            **{f"{target}.cache-from.0.ref": f"{IMAGES}:{target}-cache_7" for target in CACHED},
            **{f"{target}.cache-from.1.ref": f"{IMAGES}:{target}-cache" for target in CACHED},
            **{f"{target}.cache-from.2.ref": f"{IMAGES}:{target}-cache-ref" for target in CACHED},
            **{f"{target}.cache-from.2.type": "registry" for target in CACHED},
            **{f"{target}.cache-from.2.registry.insecure": "true" for target in CACHED},
            **{f"{target}.cache-to.0.ref": f"{IMAGES}:{target}-cache_7" for target in CACHED},
        },
    ),
    Effect(
        {"PUBLISHED_INPUTS": "1"},
        published(
            {
                "cache-probe": "sccache",
                "base": "rocm",
                "triton": "sccache base",
                "pytorch": "sccache base",
                "torchvision": "sccache base pytorch",
                "aiter": "sccache base triton pytorch",
                "atom": "base",
                "cupy-wheel": "sccache base",
                "cupy": "base cupy-wheel",
                "nixl": "sccache base",
                "lmcache": "sccache base pytorch",
                "vllm": "sccache base pytorch",
                "runtime": "base triton pytorch torchvision aiter atom cupy-wheel nixl lmcache vllm",
            }
        ),
    ),
    Effect({"PUBLISHED_INPUTS": "0"}, {}),
    Effect(
        {"RUN_ID": "dev-i-0abc"}, {f"{target}.args.BUILDKIT_BUILD_NAME": f"{target} (dev-i-0abc)" for target in EVERY}
    ),
]


def refused(name: str, value: str, fix: str) -> Refusal:
    return Refusal({name: value}, f'{name} is "{value}": set it to {fix}')


REFS = (
    "TRITON_REF",
    "AITER_REF",
    "TORCHVISION_REF",
    "ATOM_REF",
    "NIXL_REF",
    "UCX_REF",
    "VLLM_REF",
    "CUPY_REF",
    "LMCACHE_REF",
)
RELEASES = ("PYTORCH_VERSION", "ROCM_VERSION", "PYTHON_VERSION", "TRITON_VERSION", "RUST_VERSION", "SCCACHE_VERSION")
EPOCHS = (
    *(
        "SDE_EPOCH",
        "SDE_ROCM",
        "SDE_BASE",
        "SDE_PYTORCH",
        "SDE_TRITON",
        "SDE_AITER",
        "SDE_RUNTIME",
        "SDE_NIXL",
        "SDE_VLLM",
    ),
    *("SDE_LMCACHE", "SDE_CUPY", "SDE_TORCHVISION"),
)

REFUSALS = [
    *[
        refused(
            name,
            value,
            "a release tag such as v1.2.3, another tag as refs/tags/NAME, "
            "or a full commit of 40 digits, never a branch.",
        )
        for name in REFS
        for value in ["main", "release/2.15", "refs/heads/v1.2.3", "v1.22.x", COMMIT[:12]]
    ],
    *[refused(name, value, "a release number such as ") for name in RELEASES for value in ["main", "v1.2.3"]],
    refused("GIT_REF", "a b", "one git ref, such as refs/heads/develop"),
    refused("ATOM_REPO", "http://git.example/ATOM.git", "the https address of a git repository, without credentials."),
    refused(
        "ATOM_REPO",
        "https://me:secret@git.example/ATOM.git",
        "the https address of a git repository, without credentials.",
    ),
    *[
        Refusal(
            {"ATOM_REPO": FORK["ATOM_REPO"], **ref},
            f'ATOM_REPO is "{FORK["ATOM_REPO"]}" but ATOM_REF is the default, v0.1.9: '
            "set ATOM_REF to a tag of that fork.",
        )
        for ref in [{}, {"ATOM_REF": ""}, {"ATOM_REF": "v0.1.9"}]
    ],
    refused("REGISTRY", "https://registry.example", "a host name or host:port, without scheme and path"),
    refused("REGISTRY", "registry.example/path", "a host name or host:port, without scheme and path"),
    refused("REGISTRY_NAME", "Rocm", "a repository name of lower-case letters and digits"),
    refused("REGISTRY_INSECURE", "yes", "true for a plain HTTP registry, else to false."),
    *[
        refused("PYTORCH_ROCM_ARCH", value, "one or more of gfx900, gfx902, gfx904, gfx906, gfx908, ")
        for value in [
            ";",
            "gfx951",
            "gfx942,gfx950",
            "gfx942 gfx950",
            "gfx942;gfx95",
            "gfx942;;gfx950",
            "gfx950:cumode+",
        ]
    ],
    *[
        refused(name, "1", "ON or OFF.")
        for name in ["USE_AITER", "USE_FLYDSL", "USE_FLASH_ATTENTION", "USE_ROCM_CK_SDPA_GFX12"]
    ],
    *[refused("MAX_JOBS", value, "a whole number from 1") for value in ["0", "4 "]],
    *[refused("PREBUILD_KERNELS", value, "a level from 0 to 3") for value in ["4", "ON"]],
    *[
        Refusal(
            {"PREBUILD_KERNELS": "2", "PYTORCH_ROCM_ARCH": gpus},
            f'PREBUILD_KERNELS is "2", which builds no wheel for the gfx1201 or gfx125x in PYTORCH_ROCM_ARCH "{gpus}": '
            "set it to 0, 1 or 3, or build for other architectures.",
        )
        for gpus in ["gfx1201", "gfx1250", "gfx1251", "gfx950;gfx1201"]
    ],
    refused("ROCM_PRUNE_PROFILE", "all", "keep-toolchain or minimal."),
    refused("SCCACHE_WEBDAV_HOST", "http://store.example", "a host name, without scheme and port"),
    refused("SCCACHE_WEBDAV_PORT", "http", "a port number such as 8081."),
    refused("SCCACHE_WEBDAV_ENDPOINT", "store.example:8081", "an http or https address without credentials"),
    Refusal(
        {"SCCACHE_BUCKET": "a-bucket"},
        'SCCACHE_BUCKET is "a-bucket" but SCCACHE_REGION is empty: set SCCACHE_REGION to ',
    ),
    refused("SCCACHE_LOG", "verbose", "off, error, warn, info, debug or trace."),
    *[
        refused("SCCACHE_VERSION", value, "a release number such as 0.19.0.")
        for value in ["00.7.0", "0.8.0-beta", "0.19"]
    ],
    refused("SCCACHE_VERSION", "0.7.7", "0.8.0 or newer; older ones cannot cache what hipcc compiles."),
    *[
        Refusal(
            {"SCCACHE_VERSION": release, **S3},
            f'SCCACHE_VERSION is "{release}": set it to 0.18.0 or newer with SCCACHE_BUCKET; ',
        )
        for release in ["0.8.0", "0.17.1"]
    ],
    refused("REQUIRE_SCCACHE", "true", "1 to insist on the compile cache"),
    refused("FORCE_RECACHE", "1", "true to compile everything again"),
    *[refused(name, "2023-11-14", "seconds since 1970, such as 1700000000.") for name in EPOCHS],
    refused("BUILD_DATE", "2026-01-02", "a time such as 2026-01-02T03:04:05Z"),
    refused("CACHE_TAG_SUFFIX", "/x", "at most 64 letters, digits"),
    refused("PUBLISHED_INPUTS", "yes", "1 to take sibling images from the registry"),
]
