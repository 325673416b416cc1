#!/bin/bash
# rocm-prune FOLDER
#
# Cuts the ROCm SDK in FOLDER down to what running the stack takes, as ROCM_PRUNE_PROFILE says:
#   keep-toolchain  compilers, headers, CMake packages and shared libraries stay, as kernels are compiled at run time too
#   minimal         the headers and the CMake packages, HIP's among them, go as well
# PYTORCH_ROCM_ARCH names the architectures whose kernels stay in the libraries; those of all others go.
#
# docs/image-sizes.md lists what goes, and why nothing that runs needs it.
set -euo pipefail

fail() {
	echo "rocm-prune: $*" >&2
	exit 2
}

(($# == 1)) || fail "$# arguments; usage: rocm-prune FOLDER"
case ${ROCM_PRUNE_PROFILE-} in
keep-toolchain | minimal) ;;
*) fail "ROCM_PRUNE_PROFILE is \"${ROCM_PRUNE_PROFILE-}\": allowed are keep-toolchain and minimal" ;;
esac

IFS=';' read -ra architectures <<<"${PYTORCH_ROCM_ARCH-}"
(("${#architectures[@]}")) || fail "PYTORCH_ROCM_ARCH is empty: set it to the architectures to keep kernels for, such as gfx950"
other_architecture=()
for architecture in "${architectures[@]}"; do
	[[ $architecture =~ ^(gfx[0-9a-f]+)(:[a-z]+[+-])*$ ]] ||
		fail "PYTORCH_ROCM_ARCH has \"$architecture\": allowed are names such as gfx950, separated by semicolons"
	other_architecture+=(! -path "*${BASH_REMATCH[1]}*")
done

# /usr has a hipcc too where a distribution packages it: only ROCm's own folder has its version in this file.
for mark in .info/version bin/hipcc; do
	[[ -e $1/$mark ]] ||
		fail "\"$1\" is not a ROCm tree, it has no $mark: give the folder that ROCm is installed in, such as /opt/rocm"
done
cd -P "$1"

mebibytes() {
	du --summarize --apparent-size --block-size=1M . | cut --fields=1
}

# Whatever matches, given as for find, with paths from the tree's root.
remove() {
	find . "$@" -prune -exec rm --recursive --force {} +
}

# What matches one of these, and is not of the compiler's own runtime.
remove_paths() {
	local pattern any=()
	for pattern in "$@"; do
		any+=(-o -path "./$pattern")
	done
	remove ! -path './lib/llvm/lib/clang/*' \( "${any[@]:1}" \)
}

before=$(mebibytes)

documentation=('share/doc' 'share/html' 'share/info' 'share/man')
tests=('bin/*[-_]test' 'bin/*[-_]tests' 'bin/*[-_]gtest' 'bin/*[-_]bench' 'bin/test_*' '*/samples' '*/examples' '*/tests')
linking=('*.a' 'lib/llvm/lib/cmake' 'lib/llvm/include/'{clang,clang-c,flang,lld,lldb,llvm,llvm-c,mlir,mlir-c})
debugging=('*.debug' 'lib/debug' 'lib/asan' 'lib/llvm/lib/asan' 'bin/rocgdb*' 'share/rocgdb' 'libexec/rocprofiler-'{compute,systems})
compilers=('bin/amdflang*' 'lib/llvm/bin/'{amdflang,flang,mlir-,fir-,bbc,tco,lldb,clangd,clang-tidy}'*')
remove_paths "${documentation[@]}" "${tests[@]}" "${linking[@]}" "${debugging[@]}" "${compilers[@]}"

# A generic target such as gfx9-4-generic is what a library falls back to.
remove -type f \( -path './lib/*/library/*gfx*' -o -path './share/miopen/db/*gfx*' \) \
	! -path '*-generic*' "${other_architecture[@]}"

if [[ $ROCM_PRUNE_PROFILE == minimal ]]; then
	remove_paths include lib/cmake lib/pkgconfig
fi

# What pointed at, or held, nothing but what went.
find . -xtype l -delete
find . -type d -empty -delete

echo "rocm-prune: $PWD: $before MiB before, $(mebibytes) MiB after" \
	"(ROCM_PRUNE_PROFILE=$ROCM_PRUNE_PROFILE, PYTORCH_ROCM_ARCH=$PYTORCH_ROCM_ARCH)"
