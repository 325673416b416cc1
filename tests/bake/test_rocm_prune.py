"""docker/rocm-prune.sh on a made-up ROCm tree."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

MEBIBYTE = 1024 * 1024

RUNS = {
    ".info/version",
    "bin/hipcc",
    "bin/rocminfo",
    "lib/libamdhip64.so.10.1",
    "lib/libamdhip64.so",  # a link
    "lib/llvm/bin/clang-23",
    "lib/llvm/bin/ld.lld",
    "lib/llvm/lib/libLLVM.so.23",
    "lib/llvm/lib/clang/23/lib/linux/libclang_rt.builtins-x86_64.a",
    "lib/llvm/lib/clang/23/include/__clang_hip_runtime_wrapper.h",
    "lib/llvm/lib/clang/23/include/tests",
    "amdgcn/bitcode/oclc_isa_version_950.bc",
    "lib/rocblas/library/TensileManifest.txt",
    "lib/rocblas/library/Kernels.so-000-gfx950.hsaco",
    "lib/rocblas/library/TensileLibrary_gfx9-4-generic.dat",
    "lib/hipblaslt/library/gfx950/TensileLibrary_BB_gfx950.co",
    "share/miopen/db/gfx950100.db",
    "share/miopen/db/gfx950_metadata.tn.model",
    "share/amd_smi/pyproject.toml",
}
"""What running takes: stays whatever the profile."""

COMPILES = {
    "include/hip/hip_runtime.h",
    "include/ck/utility/amd_gfx942.hpp",  # named after an architecture, and no kernel
    "lib/cmake/hip/hip-config.cmake",
    "lib/cmake/hip-lang/hip-lang-config.cmake",
    "lib/pkgconfig/hip.pc",
}
"""What compiling takes on top."""

OTHER_ARCHITECTURES = {
    "lib/rocblas/library/Kernels.so-000-gfx942.hsaco",
    "lib/rocblas/library/Kernels.so-000-gfx90a-xnack+.hsaco",
    "lib/hipblaslt/library/gfx942/TensileLibrary_BB_gfx942.co",
    "share/miopen/db/gfx942130.db",
    "share/miopen/db/gfx1030_36.HIP.fdb.txt",
}

USELESS = {
    "share/doc/rocblas/LICENSE.md",
    "share/man/man1/hipcc.1",
    "share/html/index.html",
    "share/hip/samples/bit_extract/bit_extract.cpp",
    "libexec/rccl/tests/all_reduce_perf",
    "bin/rocblas-test",
    "bin/hipblaslt_bench",
    "bin/rocgdb",
    "bin/amdflang",  # a link
    "lib/llvm/bin/flang-23",
    "lib/llvm/bin/clangd",
    "lib/llvm/lib/libLLVMCore.a",
    "lib/llvm/lib/cmake/llvm/LLVMConfig.cmake",
    "lib/llvm/include/llvm/ADT/APInt.h",
    "lib/libdevice_gemm_operations.a",
    "lib/libdevice_gemm_operations_link.a",  # a link
    "lib/debug/libamdhip64.so.debug",
}

LINKS = {
    "lib/libamdhip64.so": "libamdhip64.so.10.1",
    "bin/amdflang": "../lib/llvm/bin/flang-23",
    "lib/libdevice_gemm_operations_link.a": "libdevice_gemm_operations.a",
}


@pytest.fixture
def rocm(tmp_path: Path) -> Path:
    """A tree in which every file is of one MiB, reached by a link, as /opt/rocm is."""
    tree = tmp_path / "rocm-10.1.0"
    for name in RUNS | COMPILES | OTHER_ARCHITECTURES | USELESS:
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name in LINKS:
            path.symlink_to(LINKS[name])
        else:
            path.touch()
            os.truncate(path, MEBIBYTE)
    link = tmp_path / "rocm"
    link.symlink_to(tree)
    return link


def prune(
    checkout: Path, *arguments: str | Path, profile: str = "keep-toolchain", architectures: str = "gfx950"
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / "docker/rocm-prune.sh", *arguments],
        check=False,
        env={"PATH": "/usr/bin:/bin", "ROCM_PRUNE_PROFILE": profile, "PYTORCH_ROCM_ARCH": architectures},
        capture_output=True,
        text=True,
    )


def files(tree: Path) -> set[str]:
    return {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_symlink() or not path.is_dir()}


@pytest.mark.parametrize(("profile", "stays"), [("keep-toolchain", RUNS | COMPILES), ("minimal", RUNS)])
def test_what_stays(checkout: Path, rocm: Path, profile: str, stays: set[str]) -> None:
    done = prune(checkout, rocm, profile=profile)
    assert (done.returncode, done.stderr) == (0, "")
    assert files(rocm.resolve()) == stays
    assert [str(path) for path in rocm.resolve().rglob("*") if path.is_dir() and not any(path.iterdir())] == []


@pytest.mark.parametrize(
    ("architectures", "kept"),
    [
        ("gfx942;gfx950", {name for name in OTHER_ARCHITECTURES if "gfx942" in name}),
        # The target features are part of no file's name in every library.
        ("gfx90a:sramecc+:xnack-;gfx950", {"lib/rocblas/library/Kernels.so-000-gfx90a-xnack+.hsaco"}),
    ],
)
def test_the_kernels_of_every_architecture_built_for_stay(
    checkout: Path, rocm: Path, architectures: str, kept: set[str]
) -> None:
    assert prune(checkout, rocm, architectures=architectures).returncode == 0
    assert files(rocm.resolve()) == RUNS | COMPILES | kept


def test_sizes_before_and_after(checkout: Path, rocm: Path) -> None:
    before = len(RUNS | COMPILES | OTHER_ARCHITECTURES | USELESS) - len(LINKS)
    after = len(RUNS) - 1
    done = prune(checkout, rocm, profile="minimal")
    tree = rocm.resolve()
    # A folder has a size of its own, which adds up to less than one more.
    assert done.stdout == (
        f"rocm-prune: {tree}: {before + 1} MiB before, {after + 1} MiB after "
        "(ROCM_PRUNE_PROFILE=minimal, PYTORCH_ROCM_ARCH=gfx950)\n"
    )


def test_pruning_again_changes_nothing(checkout: Path, rocm: Path) -> None:
    prune(checkout, rocm, profile="minimal")
    done = prune(checkout, rocm)
    assert (done.returncode, files(rocm.resolve())) == (0, RUNS)


REFUSALS = [
    ("", "gfx950", 'ROCM_PRUNE_PROFILE is "": allowed are keep-toolchain and minimal'),
    ("all", "gfx950", 'ROCM_PRUNE_PROFILE is "all": allowed are keep-toolchain and minimal'),
    ("minimal", "", "PYTORCH_ROCM_ARCH is empty: set it to the architectures to keep kernels for, such as gfx950"),
    (
        "minimal",
        "gfx950;*",
        'PYTORCH_ROCM_ARCH has "*": allowed are names such as gfx950, separated by semicolons',
    ),
]


@pytest.mark.parametrize(("profile", "architectures", "message"), REFUSALS)
def test_bad_values_are_refused(checkout: Path, rocm: Path, profile: str, architectures: str, message: str) -> None:
    there = files(rocm.resolve())
    done = prune(checkout, rocm, profile=profile, architectures=architectures)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"rocm-prune: {message}\n")
    assert files(rocm.resolve()) == there


@pytest.mark.parametrize("missing", [".info/version", "bin/hipcc"])
def test_another_folder_is_refused(checkout: Path, rocm: Path, missing: str) -> None:
    (rocm / missing).unlink()
    there = files(rocm.resolve())
    done = prune(checkout, rocm)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f'rocm-prune: "{rocm}" is not a ROCm tree, it has no {missing}: '
        "give the folder that ROCm is installed in, such as /opt/rocm\n"
    )
    assert files(rocm.resolve()) == there


def test_usage(checkout: Path) -> None:
    done = prune(checkout)
    assert (done.returncode, done.stderr) == (2, "rocm-prune: 0 arguments; usage: rocm-prune FOLDER\n")
