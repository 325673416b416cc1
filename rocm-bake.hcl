# The single source of every value a build reads: values written twice would drift, so the Makefile, the documentation and the
# Pulumi settings read theirs from here. An environment variable of the same name overrides a default.
#
# Every variable is a string, numbers and switches included, because Bake turns a number or a bool that is set but empty into an
# error. An empty string it takes for a value in place of the default; here set but empty is the same as unset, so what is built reads
# `effective`, and never a variable that has a default.

# --- What is known without a variable -----------------------------------------------------------------------------------------

# The processors that LLVM compiles for, from Vega on (EF_AMDGPU_MACH_* in llvm/include/llvm/BinaryFormat/ELF.h of
# https://github.com/llvm/llvm-project), without the generic ones, which PyTorch does not take.
known_architectures = [
  "gfx900", "gfx902", "gfx904", "gfx906", "gfx908", "gfx909", "gfx90a", "gfx90c", "gfx942", "gfx950",
  "gfx1010", "gfx1011", "gfx1012", "gfx1013", "gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036",
  "gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153", "gfx1154",
  "gfx1170", "gfx1171", "gfx1172", "gfx1200", "gfx1201", "gfx1250", "gfx1251", "gfx1310",
]

# One object, because Bake judges the variables before it evaluates anything that their defaults do not refer to.
known = {
  # What each variable is when it is unset or empty. One that is not here is empty then.
  default = {
    PYTORCH_VERSION           = "2.15.0"
    ROCM_VERSION              = "10.1.0-full"
    PYTHON_VERSION            = "3.14"
    TRITON_VERSION            = "3.9.0"
    TRITON_REF                = "aad2a60d958f945420c5c40936b37d411fb02e89"
    AITER_REF                 = "v0.1.29"
    TORCHVISION_REF           = "v0.29.2"
    ATOM_REF                  = "v0.1.9"
    NIXL_REF                  = "v1.5.2"
    UCX_REF                   = "v1.22.0"
    VLLM_REF                  = "v0.33.0"
    CUPY_REF                  = "v14.2.0"
    LMCACHE_REF               = "v0.5.7"
    RUST_VERSION              = "1.95"
    ATOM_REPO                 = "https://github.com/ROCm/ATOM.git"
    REGISTRY                  = "snoc-strix.fold-leaffish.ts.net:8080"
    REGISTRY_NAME             = "rocm-pytorch"
    REGISTRY_INSECURE         = "true"
    SOURCE_URL                = "https://github.com/sbates130272/rocm-pytorch-build"
    PYTORCH_ROCM_ARCH         = "gfx950"
    USE_AITER                 = "ON"
    USE_FLYDSL                = "ON"
    USE_FLASH_ATTENTION       = "ON"
    ROCM_PRUNE_PROFILE        = "keep-toolchain"
    SCCACHE_WEBDAV_HOST       = "snoc-strix.fold-leaffish.ts.net"
    SCCACHE_WEBDAV_PORT       = "8081"
    SCCACHE_WEBDAV_KEY_PREFIX = "rocm-pytorch"
    SCCACHE_S3_KEY_PREFIX     = "rocm-pytorch"
    SCCACHE_LOG               = "warn"
    SCCACHE_VERSION           = "0.19.0"
    REQUIRE_SCCACHE           = "1"
    FORCE_RECACHE             = "false"
    SDE_EPOCH                 = "1700000000"
    RUN_ID                    = "dev"
  }

  release = "^[0-9]+(\\.[0-9]+)+([-+.]?[A-Za-z0-9]+)*$"

  # A moving ref would be served from the layer cache for ever once built, and an update would silently do nothing. A value alone
  # tells a tag from a branch only when it looks like a release, which v1.22.x does not, or says that it is a tag.
  fixed_ref       = "^(v?[0-9]+(\\.[0-9]+)+(([-+._]?[A-Za-z0-9]+)*([A-Za-z0-9][xX]|[-+._]?[A-WYZa-wyz0-9]))?|refs/tags/[^\\s~^:?*\\[\\\\]+|[0-9a-f]{40})$"
  fixed_ref_means = "a release tag such as v1.2.3, another tag as refs/tags/NAME, or a full commit of 40 digits, never a branch"

  # With the target features that a build may pin.
  architecture = "(${join("|", known_architectures)})(:sramecc[+-])?(:xnack[+-])?"
}

# --- Versions and refs --------------------------------------------------------------------------------------------------------

variable "PYTORCH_VERSION" {
  default     = known.default.PYTORCH_VERSION
  description = "PyTorch release to build. Set by whoever moves the stack to a new release; empty means the default."

  validation {
    condition     = PYTORCH_VERSION == "" || length(regexall(known.release, PYTORCH_VERSION)) == 1
    error_message = "PYTORCH_VERSION is \"${PYTORCH_VERSION}\": set it to a release number such as ${known.default.PYTORCH_VERSION}."
  }
}

variable "ROCM_VERSION" {
  default     = known.default.ROCM_VERSION
  description = "ROCm release, as the tag of its base image. Set by whoever moves the stack to a new ROCm; empty means the default."

  validation {
    condition     = ROCM_VERSION == "" || length(regexall(known.release, ROCM_VERSION)) == 1
    error_message = "ROCM_VERSION is \"${ROCM_VERSION}\": set it to a release number such as ${known.default.ROCM_VERSION}."
  }
}

variable "PYTHON_VERSION" {
  default     = known.default.PYTHON_VERSION
  description = "Python minor version that every wheel is built for. Set by whoever moves the stack; empty means the default."

  validation {
    condition     = PYTHON_VERSION == "" || length(regexall(known.release, PYTHON_VERSION)) == 1
    error_message = "PYTHON_VERSION is \"${PYTHON_VERSION}\": set it to a release number such as ${known.default.PYTHON_VERSION}."
  }
}

variable "TRITON_VERSION" {
  default     = known.default.TRITON_VERSION
  description = "Version the Triton wheel carries; belongs to TRITON_REF. Set together with it; empty means the default."

  validation {
    condition     = TRITON_VERSION == "" || length(regexall(known.release, TRITON_VERSION)) == 1
    error_message = "TRITON_VERSION is \"${TRITON_VERSION}\": set it to a release number such as ${known.default.TRITON_VERSION}."
  }
}

variable "TRITON_REF" {
  default     = known.default.TRITON_REF
  description = "Triton commit or tag to build. Set to the commit that the PyTorch release pins; empty means the default."

  validation {
    condition     = TRITON_REF == "" || length(regexall(known.fixed_ref, TRITON_REF)) == 1
    error_message = "TRITON_REF is \"${TRITON_REF}\": set it to ${known.fixed_ref_means}."
  }
}

variable "AITER_REF" {
  default     = known.default.AITER_REF
  description = "AITER release tag. A tag, never a branch: the clone is cached by this string. Empty means the default."

  validation {
    condition     = AITER_REF == "" || length(regexall(known.fixed_ref, AITER_REF)) == 1
    error_message = "AITER_REF is \"${AITER_REF}\": set it to ${known.fixed_ref_means}."
  }
}

variable "TORCHVISION_REF" {
  default     = known.default.TORCHVISION_REF
  description = "torchvision release tag that matches PYTORCH_VERSION. Empty means the default."

  validation {
    condition     = TORCHVISION_REF == "" || length(regexall(known.fixed_ref, TORCHVISION_REF)) == 1
    error_message = "TORCHVISION_REF is \"${TORCHVISION_REF}\": set it to ${known.fixed_ref_means}."
  }
}

variable "ATOM_REF" {
  default     = known.default.ATOM_REF
  description = "ATOM release tag in ATOM_REPO. A tag, never a branch: the clone is cached by this string. Empty means the default."

  validation {
    condition     = ATOM_REF == "" || length(regexall(known.fixed_ref, ATOM_REF)) == 1
    error_message = "ATOM_REF is \"${ATOM_REF}\": set it to ${known.fixed_ref_means}."
  }
}

variable "NIXL_REF" {
  default     = known.default.NIXL_REF
  description = "NIXL release tag. Empty means the default."

  validation {
    condition     = NIXL_REF == "" || length(regexall(known.fixed_ref, NIXL_REF)) == 1
    error_message = "NIXL_REF is \"${NIXL_REF}\": set it to ${known.fixed_ref_means}."
  }
}

variable "UCX_REF" {
  default     = known.default.UCX_REF
  description = "UCX release tag, the transport under NIXL. Empty means the default."

  validation {
    condition     = UCX_REF == "" || length(regexall(known.fixed_ref, UCX_REF)) == 1
    error_message = "UCX_REF is \"${UCX_REF}\": set it to ${known.fixed_ref_means}."
  }
}

variable "VLLM_REF" {
  default     = known.default.VLLM_REF
  description = "vLLM release tag. A tag, never a branch: the clone is cached by this string. Empty means the default."

  validation {
    condition     = VLLM_REF == "" || length(regexall(known.fixed_ref, VLLM_REF)) == 1
    error_message = "VLLM_REF is \"${VLLM_REF}\": set it to ${known.fixed_ref_means}."
  }
}

variable "CUPY_REF" {
  default     = known.default.CUPY_REF
  description = "CuPy release tag. Empty means the default."

  validation {
    condition     = CUPY_REF == "" || length(regexall(known.fixed_ref, CUPY_REF)) == 1
    error_message = "CUPY_REF is \"${CUPY_REF}\": set it to ${known.fixed_ref_means}."
  }
}

variable "LMCACHE_REF" {
  default     = known.default.LMCACHE_REF
  description = "LMCache release tag. A tag, never a branch: the clone is cached by this string. Empty means the default."

  validation {
    condition     = LMCACHE_REF == "" || length(regexall(known.fixed_ref, LMCACHE_REF)) == 1
    error_message = "LMCACHE_REF is \"${LMCACHE_REF}\": set it to ${known.fixed_ref_means}."
  }
}

variable "RUST_VERSION" {
  default     = known.default.RUST_VERSION
  description = "Rust toolchain for vLLM's Rust parts. Follows the channel in vLLM's rust-toolchain.toml; empty means the default."

  validation {
    condition     = RUST_VERSION == "" || length(regexall(known.release, RUST_VERSION)) == 1
    error_message = "RUST_VERSION is \"${RUST_VERSION}\": set it to a release number such as ${known.default.RUST_VERSION}."
  }
}

variable "GIT_REF" {
  default     = ""
  description = "PyTorch ref to build instead of a release, such as refs/heads/develop; a branch is fetched once and then served from the layer cache. Set for one build; empty builds PYTORCH_VERSION."

  validation {
    condition     = length(regexall("^[^\\s~^:?*\\[\\\\]*$", GIT_REF)) == 1
    error_message = "GIT_REF is \"${GIT_REF}\": set it to one git ref, such as refs/heads/develop, v2.15.0 or a full commit, or leave it empty to build PYTORCH_VERSION."
  }
}

variable "ATOM_REPO" {
  default     = known.default.ATOM_REPO
  description = "Git repository that ATOM_REF is a tag of, by https and without credentials. Set, together with ATOM_REF, to build a fork; empty means the default."

  validation {
    condition     = ATOM_REPO == "" || length(regexall("^https://[^\\s@]+$", ATOM_REPO)) == 1
    error_message = "ATOM_REPO is \"${ATOM_REPO}\": set it to the https address of a git repository, without credentials."
  }

  validation {
    condition     = contains(["", known.default.ATOM_REPO], ATOM_REPO) || !contains(["", known.default.ATOM_REF], ATOM_REF)
    error_message = "ATOM_REPO is \"${ATOM_REPO}\" but ATOM_REF is the default, ${known.default.ATOM_REF}: set ATOM_REF to a tag of that fork."
  }
}

# --- Registry -----------------------------------------------------------------------------------------------------------------

variable "REGISTRY" {
  default     = known.default.REGISTRY
  description = "Host and port of the registry that images and layer caches go to. The box sets its own; empty means the default."

  validation {
    condition     = REGISTRY == "" || length(regexall("^[A-Za-z0-9.-]+(:[0-9]+)?$", REGISTRY)) == 1
    error_message = "REGISTRY is \"${REGISTRY}\": set it to a host name or host:port, without scheme and path; the path is REGISTRY_NAME."
  }
}

variable "REGISTRY_NAME" {
  default     = known.default.REGISTRY_NAME
  description = "Repository within REGISTRY; a target's image is tagged with the target's name. The box sets its own; empty means the default."

  validation {
    condition     = REGISTRY_NAME == "" || length(regexall("^[a-z0-9]+([._/-]+[a-z0-9]+)*$", REGISTRY_NAME)) == 1
    error_message = "REGISTRY_NAME is \"${REGISTRY_NAME}\": set it to a repository name of lower-case letters and digits, with '.', '_', '-' and '/' between them."
  }
}

variable "REGISTRY_INSECURE" {
  default     = known.default.REGISTRY_INSECURE
  description = "true allows plain HTTP and skips certificate checks for pushes and layer caches; false for any registry with TLS, which the box sets. Empty means the default, true."

  validation {
    condition     = contains(["", "false", "true"], REGISTRY_INSECURE)
    error_message = "REGISTRY_INSECURE is \"${REGISTRY_INSECURE}\": set it to true for a plain HTTP registry, else to false."
  }
}

variable "SOURCE_URL" {
  default     = known.default.SOURCE_URL
  description = "Address of these sources, for the image label. Set by a fork; empty means the default."
}

# --- Architecture and build shape ---------------------------------------------------------------------------------------------

variable "PYTORCH_ROCM_ARCH" {
  default     = known.default.PYTORCH_ROCM_ARCH
  description = "GPU architectures to compile for, separated by semicolons; a list makes one fat binary. Set per deployment; empty means the default."

  validation {
    condition     = PYTORCH_ROCM_ARCH == "" || length(regexall("^\\s*${known.architecture}\\s*(;\\s*${known.architecture}\\s*)*;?\\s*$", PYTORCH_ROCM_ARCH)) == 1
    error_message = "PYTORCH_ROCM_ARCH is \"${PYTORCH_ROCM_ARCH}\": set it to one or more of ${join(", ", known_architectures)}, separated by semicolons, such as gfx942;gfx950."
  }
}

variable "USE_AITER" {
  default     = known.default.USE_AITER
  description = "ON or OFF: PyTorch with AITER kernels. Set per build; empty means the default, ON."

  validation {
    condition     = contains(["", "OFF", "ON"], USE_AITER)
    error_message = "USE_AITER is \"${USE_AITER}\": set it to ON or OFF."
  }
}

variable "USE_FLYDSL" {
  default     = known.default.USE_FLYDSL
  description = "ON or OFF: AITER with FlyDSL kernels. Set per build; empty means the default, ON."

  validation {
    condition     = contains(["", "OFF", "ON"], USE_FLYDSL)
    error_message = "USE_FLYDSL is \"${USE_FLYDSL}\": set it to ON or OFF."
  }
}

variable "USE_FLASH_ATTENTION" {
  default     = known.default.USE_FLASH_ATTENTION
  description = "ON or OFF: PyTorch with flash attention. Set per build; empty means the default, ON."

  validation {
    condition     = contains(["", "OFF", "ON"], USE_FLASH_ATTENTION)
    error_message = "USE_FLASH_ATTENTION is \"${USE_FLASH_ATTENTION}\": set it to ON or OFF."
  }
}

variable "USE_ROCM_CK_SDPA_GFX12" {
  default     = ""
  description = "ON or OFF: PyTorch with the Composable Kernel SDPA for RDNA4; ON takes effect only when PYTORCH_ROCM_ARCH has a gfx12 RDNA4 target. Set per build; empty means OFF."

  validation {
    condition     = contains(["", "OFF", "ON"], USE_ROCM_CK_SDPA_GFX12)
    error_message = "USE_ROCM_CK_SDPA_GFX12 is \"${USE_ROCM_CK_SDPA_GFX12}\": set it to ON or OFF."
  }
}

variable "MAX_JOBS" {
  default     = ""
  description = "Parallel compile jobs. The box sets it from its memory; empty derives it on the node from MemAvailable, 4 GiB a job, at most one a CPU."

  validation {
    condition     = MAX_JOBS == "" || length(regexall("^[1-9][0-9]*$", MAX_JOBS)) == 1
    error_message = "MAX_JOBS is \"${MAX_JOBS}\": set it to a whole number from 1, or leave it empty to derive it from the node's memory."
  }
}

variable "PREBUILD_KERNELS" {
  default     = ""
  description = "Level of AITER kernels to compile ahead: 0 none, 1 without most attention, 2 without backward passes, 3 attention alone. Set per build; empty means 0 on every architecture."

  validation {
    condition     = contains(["", "0", "1", "2", "3"], PREBUILD_KERNELS)
    error_message = "PREBUILD_KERNELS is \"${PREBUILD_KERNELS}\": set it to a level from 0 to 3, or leave it empty for 0."
  }

  validation {
    condition     = PREBUILD_KERNELS != "2" || length(regexall("gfx(1201|125)", compact([PYTORCH_ROCM_ARCH, known.default.PYTORCH_ROCM_ARCH])[0])) == 0
    error_message = "PREBUILD_KERNELS is \"2\", which builds no wheel for the gfx1201 or gfx125x in PYTORCH_ROCM_ARCH \"${PYTORCH_ROCM_ARCH}\": set it to 0, 1 or 3, or build for other architectures."
  }
}

variable "ROCM_PRUNE_PROFILE" {
  default     = known.default.ROCM_PRUNE_PROFILE
  description = "How hard the ROCm SDK in the runtime image is cut down: keep-toolchain, or minimal, which drops the headers and the HIP CMake package too. Empty means the default."

  validation {
    condition     = contains(["", "keep-toolchain", "minimal"], ROCM_PRUNE_PROFILE)
    error_message = "ROCM_PRUNE_PROFILE is \"${ROCM_PRUNE_PROFILE}\": set it to keep-toolchain or minimal."
  }
}

# --- Compiler cache -----------------------------------------------------------------------------------------------------------

variable "SCCACHE_WEBDAV_HOST" {
  default     = known.default.SCCACHE_WEBDAV_HOST
  description = "Host of the WebDAV store, for builds on the fleet. Unused with SCCACHE_BUCKET or SCCACHE_WEBDAV_ENDPOINT; empty means the default."

  validation {
    condition     = SCCACHE_WEBDAV_HOST == "" || length(regexall("^[A-Za-z0-9.-]+$", SCCACHE_WEBDAV_HOST)) == 1
    error_message = "SCCACHE_WEBDAV_HOST is \"${SCCACHE_WEBDAV_HOST}\": set it to a host name, without scheme and port; SCCACHE_WEBDAV_ENDPOINT takes a whole address."
  }
}

variable "SCCACHE_WEBDAV_PORT" {
  default     = known.default.SCCACHE_WEBDAV_PORT
  description = "Port of the WebDAV store at SCCACHE_WEBDAV_HOST. Empty means the default."

  validation {
    condition     = SCCACHE_WEBDAV_PORT == "" || length(regexall("^[1-9][0-9]{0,4}$", SCCACHE_WEBDAV_PORT)) == 1
    error_message = "SCCACHE_WEBDAV_PORT is \"${SCCACHE_WEBDAV_PORT}\": set it to a port number such as ${known.default.SCCACHE_WEBDAV_PORT}."
  }
}

variable "SCCACHE_WEBDAV_ENDPOINT" {
  default     = ""
  description = "Whole address of the WebDAV store. The Makefile sets a resolved one; empty composes it from host and port."

  validation {
    condition     = SCCACHE_WEBDAV_ENDPOINT == "" || length(regexall("^https?://[^\\s@]+$", SCCACHE_WEBDAV_ENDPOINT)) == 1
    error_message = "SCCACHE_WEBDAV_ENDPOINT is \"${SCCACHE_WEBDAV_ENDPOINT}\": set it to an http or https address without credentials, or leave it empty to compose it from host and port."
  }
}

variable "SCCACHE_WEBDAV_KEY_PREFIX" {
  default     = known.default.SCCACHE_WEBDAV_KEY_PREFIX
  description = "Folder within the WebDAV store. Set to keep projects apart; empty means the default."
}

variable "SCCACHE_BUCKET" {
  default     = ""
  description = "S3 bucket of the compile cache, for builds off the fleet. The box sets its own; empty selects the WebDAV store."
}

variable "SCCACHE_REGION" {
  default     = ""
  description = "Region of SCCACHE_BUCKET. The box sets its own; required whenever the bucket is set, and empty without one."

  validation {
    condition     = SCCACHE_BUCKET == "" || SCCACHE_REGION != ""
    error_message = "SCCACHE_BUCKET is \"${SCCACHE_BUCKET}\" but SCCACHE_REGION is empty: set SCCACHE_REGION to the bucket's region, such as us-east-1."
  }
}

variable "SCCACHE_S3_KEY_PREFIX" {
  default     = known.default.SCCACHE_S3_KEY_PREFIX
  description = "Key prefix within SCCACHE_BUCKET. The box sets the one its role may write; empty means the default."
}

variable "SCCACHE_LOG" {
  default     = known.default.SCCACHE_LOG
  description = "Log level of the sccache server: off, error, warn, info, debug or trace; debug shows what its cache errors count. Set for one build; empty means the default."

  validation {
    condition     = contains(["", "off", "error", "warn", "info", "debug", "trace"], SCCACHE_LOG)
    error_message = "SCCACHE_LOG is \"${SCCACHE_LOG}\": set it to off, error, warn, info, debug or trace."
  }
}

variable "SCCACHE_VERSION" {
  default     = known.default.SCCACHE_VERSION
  description = "sccache release to build: 0.8.0 or newer for HIP, 0.18.0 or newer with SCCACHE_BUCKET, whose credentials it renews. Empty means the default."

  # Three plain numbers: the floors below would let 00.7.0 and 0.8.0-beta pass.
  validation {
    condition     = SCCACHE_VERSION == "" || length(regexall("^(0|[1-9][0-9]*)(\\.(0|[1-9][0-9]*)){2}$", SCCACHE_VERSION)) == 1
    error_message = "SCCACHE_VERSION is \"${SCCACHE_VERSION}\": set it to a release number such as ${known.default.SCCACHE_VERSION}."
  }

  validation {
    condition     = length(regexall("^0\\.[0-7]\\.", SCCACHE_VERSION)) == 0
    error_message = "SCCACHE_VERSION is \"${SCCACHE_VERSION}\": set it to 0.8.0 or newer; older ones cannot cache what hipcc compiles."
  }

  validation {
    condition     = SCCACHE_BUCKET == "" || length(regexall("^0\\.([0-9]|1[0-7])\\.", SCCACHE_VERSION)) == 0
    error_message = "SCCACHE_VERSION is \"${SCCACHE_VERSION}\": set it to 0.18.0 or newer with SCCACHE_BUCKET; older ones do not renew S3 credentials."
  }
}

variable "REQUIRE_SCCACHE" {
  default     = known.default.REQUIRE_SCCACHE
  description = "1 refuses to compile when the store cannot be read and written; 0 compiles uncached then. Set for one build; empty means the default, 1."

  validation {
    condition     = contains(["", "0", "1"], REQUIRE_SCCACHE)
    error_message = "REQUIRE_SCCACHE is \"${REQUIRE_SCCACHE}\": set it to 1 to insist on the compile cache, or to 0 to build without it when it fails."
  }
}

variable "FORCE_RECACHE" {
  default     = known.default.FORCE_RECACHE
  description = "true compiles everything and overwrites what the compile cache holds. Set for one build; empty means the default, false."

  validation {
    condition     = contains(["", "false", "true"], FORCE_RECACHE)
    error_message = "FORCE_RECACHE is \"${FORCE_RECACHE}\": set it to true to compile everything again, else to false."
  }
}

# --- Reproducibility ----------------------------------------------------------------------------------------------------------

variable "SDE_EPOCH" {
  default     = known.default.SDE_EPOCH
  description = "SOURCE_DATE_EPOCH of every image, in seconds; a constant, so that equal inputs give equal images. Empty means the default."

  validation {
    condition     = length(regexall("^[0-9]*$", SDE_EPOCH)) == 1
    error_message = "SDE_EPOCH is \"${SDE_EPOCH}\": set it to seconds since 1970, such as ${known.default.SDE_EPOCH}."
  }
}

variable "SDE_ROCM" {
  default     = ""
  description = "SOURCE_DATE_EPOCH of the ROCm image alone. Set to rebuild just that one; empty means SDE_EPOCH."

  validation {
    condition     = length(regexall("^[0-9]*$", SDE_ROCM)) == 1
    error_message = "SDE_ROCM is \"${SDE_ROCM}\": set it to seconds since 1970, such as ${known.default.SDE_EPOCH}."
  }
}

variable "SDE_BASE" {
  default     = ""
  description = "SOURCE_DATE_EPOCH of the base image alone. Set to rebuild just that one; empty means SDE_EPOCH."

  validation {
    condition     = length(regexall("^[0-9]*$", SDE_BASE)) == 1
    error_message = "SDE_BASE is \"${SDE_BASE}\": set it to seconds since 1970, such as ${known.default.SDE_EPOCH}."
  }
}

variable "SDE_PYTORCH" {
  default     = ""
  description = "SOURCE_DATE_EPOCH of the PyTorch image alone. Set to rebuild just that one; empty means SDE_EPOCH."

  validation {
    condition     = length(regexall("^[0-9]*$", SDE_PYTORCH)) == 1
    error_message = "SDE_PYTORCH is \"${SDE_PYTORCH}\": set it to seconds since 1970, such as ${known.default.SDE_EPOCH}."
  }
}

variable "SDE_TRITON" {
  default     = ""
  description = "SOURCE_DATE_EPOCH of the Triton image alone. Set to rebuild just that one; empty means SDE_EPOCH."

  validation {
    condition     = length(regexall("^[0-9]*$", SDE_TRITON)) == 1
    error_message = "SDE_TRITON is \"${SDE_TRITON}\": set it to seconds since 1970, such as ${known.default.SDE_EPOCH}."
  }
}

variable "SDE_AITER" {
  default     = ""
  description = "SOURCE_DATE_EPOCH of the AITER image alone. Set to rebuild just that one; empty means SDE_EPOCH."

  validation {
    condition     = length(regexall("^[0-9]*$", SDE_AITER)) == 1
    error_message = "SDE_AITER is \"${SDE_AITER}\": set it to seconds since 1970, such as ${known.default.SDE_EPOCH}."
  }
}

variable "SDE_RUNTIME" {
  default     = ""
  description = "SOURCE_DATE_EPOCH of the runtime image alone. Set to rebuild just that one; empty means SDE_EPOCH."

  validation {
    condition     = length(regexall("^[0-9]*$", SDE_RUNTIME)) == 1
    error_message = "SDE_RUNTIME is \"${SDE_RUNTIME}\": set it to seconds since 1970, such as ${known.default.SDE_EPOCH}."
  }
}

variable "SDE_NIXL" {
  default     = ""
  description = "SOURCE_DATE_EPOCH of the NIXL image alone. Set to rebuild just that one; empty means SDE_EPOCH."

  validation {
    condition     = length(regexall("^[0-9]*$", SDE_NIXL)) == 1
    error_message = "SDE_NIXL is \"${SDE_NIXL}\": set it to seconds since 1970, such as ${known.default.SDE_EPOCH}."
  }
}

variable "SDE_VLLM" {
  default     = ""
  description = "SOURCE_DATE_EPOCH of the vLLM image alone. Set to rebuild just that one; empty means SDE_EPOCH."

  validation {
    condition     = length(regexall("^[0-9]*$", SDE_VLLM)) == 1
    error_message = "SDE_VLLM is \"${SDE_VLLM}\": set it to seconds since 1970, such as ${known.default.SDE_EPOCH}."
  }
}

variable "SDE_LMCACHE" {
  default     = ""
  description = "SOURCE_DATE_EPOCH of the LMCache image alone. Set to rebuild just that one; empty means SDE_EPOCH."

  validation {
    condition     = length(regexall("^[0-9]*$", SDE_LMCACHE)) == 1
    error_message = "SDE_LMCACHE is \"${SDE_LMCACHE}\": set it to seconds since 1970, such as ${known.default.SDE_EPOCH}."
  }
}

variable "SDE_CUPY" {
  default     = ""
  description = "SOURCE_DATE_EPOCH of the CuPy image alone. Set to rebuild just that one; empty means SDE_EPOCH."

  validation {
    condition     = length(regexall("^[0-9]*$", SDE_CUPY)) == 1
    error_message = "SDE_CUPY is \"${SDE_CUPY}\": set it to seconds since 1970, such as ${known.default.SDE_EPOCH}."
  }
}

variable "SDE_TORCHVISION" {
  default     = ""
  description = "SOURCE_DATE_EPOCH of the torchvision image alone. Set to rebuild just that one; empty means SDE_EPOCH."

  validation {
    condition     = length(regexall("^[0-9]*$", SDE_TORCHVISION)) == 1
    error_message = "SDE_TORCHVISION is \"${SDE_TORCHVISION}\": set it to seconds since 1970, such as ${known.default.SDE_EPOCH}."
  }
}

variable "VCS_REF" {
  default     = ""
  description = "Commit that is built, with -dirty for a changed tree, for the image label. Set by the Makefile and the box; empty leaves the label empty."
}

variable "BUILD_DATE" {
  default     = ""
  description = "Time of that commit, RFC 3339, for the image label. Set by the Makefile and the box; empty leaves the label empty."

  validation {
    condition     = BUILD_DATE == "" || length(regexall("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[+-][0-9]{2}:[0-9]{2})$", BUILD_DATE)) == 1
    error_message = "BUILD_DATE is \"${BUILD_DATE}\": set it to a time such as 2026-01-02T03:04:05Z, or leave it empty."
  }
}

# --- Caching and scheduling ---------------------------------------------------------------------------------------------------

variable "CACHE_TAG_SUFFIX" {
  default     = ""
  description = "Suffix of the tags that layer caches are written to; -ref refreshes the frozen baseline. Set for one build; empty writes the rolling tag."

  validation {
    condition     = length(regexall("^[A-Za-z0-9_.-]{0,64}$", CACHE_TAG_SUFFIX)) == 1
    error_message = "CACHE_TAG_SUFFIX is \"${CACHE_TAG_SUFFIX}\": set it to at most 64 letters, digits, '_', '.' and '-', such as -ref, or leave it empty for the rolling tag."
  }
}

variable "PUBLISHED_INPUTS" {
  default     = ""
  description = "1 takes sibling images from the registry instead of building them. Set by builds that run side by side; empty or 0 builds them."

  validation {
    condition     = contains(["", "0", "1"], PUBLISHED_INPUTS)
    error_message = "PUBLISHED_INPUTS is \"${PUBLISHED_INPUTS}\": set it to 1 to take sibling images from the registry, else to 0."
  }
}

variable "RUN_ID" {
  default     = known.default.RUN_ID
  description = "Name of this run in BuildKit's history records, after the target's. The box sets its own; empty means the default."
}

# --- Derived values -----------------------------------------------------------------------------------------------------------

# Each variable that has a default, with set but empty being the same as unset.
effective = merge(known.default, { for name, value in {
  PYTORCH_VERSION           = PYTORCH_VERSION
  ROCM_VERSION              = ROCM_VERSION
  PYTHON_VERSION            = PYTHON_VERSION
  TRITON_VERSION            = TRITON_VERSION
  TRITON_REF                = TRITON_REF
  AITER_REF                 = AITER_REF
  TORCHVISION_REF           = TORCHVISION_REF
  ATOM_REF                  = ATOM_REF
  NIXL_REF                  = NIXL_REF
  UCX_REF                   = UCX_REF
  VLLM_REF                  = VLLM_REF
  CUPY_REF                  = CUPY_REF
  LMCACHE_REF               = LMCACHE_REF
  RUST_VERSION              = RUST_VERSION
  ATOM_REPO                 = ATOM_REPO
  REGISTRY                  = REGISTRY
  REGISTRY_NAME             = REGISTRY_NAME
  REGISTRY_INSECURE         = REGISTRY_INSECURE
  SOURCE_URL                = SOURCE_URL
  PYTORCH_ROCM_ARCH         = PYTORCH_ROCM_ARCH
  USE_AITER                 = USE_AITER
  USE_FLYDSL                = USE_FLYDSL
  USE_FLASH_ATTENTION       = USE_FLASH_ATTENTION
  ROCM_PRUNE_PROFILE        = ROCM_PRUNE_PROFILE
  SCCACHE_WEBDAV_HOST       = SCCACHE_WEBDAV_HOST
  SCCACHE_WEBDAV_PORT       = SCCACHE_WEBDAV_PORT
  SCCACHE_WEBDAV_KEY_PREFIX = SCCACHE_WEBDAV_KEY_PREFIX
  SCCACHE_S3_KEY_PREFIX     = SCCACHE_S3_KEY_PREFIX
  SCCACHE_LOG               = SCCACHE_LOG
  SCCACHE_VERSION           = SCCACHE_VERSION
  REQUIRE_SCCACHE           = REQUIRE_SCCACHE
  FORCE_RECACHE             = FORCE_RECACHE
  SDE_EPOCH                 = SDE_EPOCH
  RUN_ID                    = RUN_ID
} : name => value if value != "" })

architectures = compact([for name in split(";", effective.PYTORCH_ROCM_ARCH) : trimspace(name)])

# The gfx12 family by name has gfx125x too, which is no RDNA4.
rdna4 = [for name in architectures : name if length(regexall("^gfx120", name)) == 1]

# --- Targets ------------------------------------------------------------------------------------------------------------------

function "image" {
  params = [target]
  result = "${effective.REGISTRY}/${effective.REGISTRY_NAME}:${target}"
}

# An image of this file as the input of another.
function "sibling" {
  params = [target]
  result = PUBLISHED_INPUTS == "1" ? "docker-image://${image(target)}" : "target:${target}"
}

function "layer_cache" {
  params = [target, suffix]
  result = "type=registry,ref=${image("${target}-cache${suffix}")},registry.insecure=${effective.REGISTRY_INSECURE}"
}

# Everything is worth reading: what this run would write, the rolling tag and the frozen baseline. A tag that is not there is no error.
function "cache_from" {
  params = [target]
  result = [for suffix in distinct([CACHE_TAG_SUFFIX, "", "-ref"]) : layer_cache(target, suffix)]
}

# A layer cache that cannot be written must not cost the image; whether it was written is for the build's own checks to ask.
function "cache_to" {
  params = [target]
  result = ["${layer_cache(target, CACHE_TAG_SUFFIX)},mode=max,image-manifest=true,oci-mediatypes=true,ignore-error=true"]
}

# buildx takes the name of a history record from the build argument BUILDKIT_BUILD_NAME (util/history in
# https://github.com/docker/buildx). No Dockerfile declares it, so it is in no layer's cache key.
function "record_name" {
  params = [target]
  result = "${target} (${effective.RUN_ID})"
}

# BuildKit takes SOURCE_DATE_EPOCH by itself.
function "epoch" {
  params = [own]
  result = own != "" ? own : effective.SDE_EPOCH
}

# What an image is a build of, as `make version-check` looks it up in the registry: the ref, or the number where there is one.
function "version_label" {
  params = [version]
  result = { "org.opencontainers.image.version" = version }
}

function "webdav_endpoint" {
  params = []
  result = SCCACHE_WEBDAV_ENDPOINT != "" ? SCCACHE_WEBDAV_ENDPOINT : "http://${effective.SCCACHE_WEBDAV_HOST}:${effective.SCCACHE_WEBDAV_PORT}"
}

group "default" {
  targets = ["runtime"]
}

# Whatever PUBLISHED_INPUTS=1 may ask the registry for.
group "all" {
  targets = [
    "sccache", "rocm", "base", "triton", "pytorch", "torchvision", "aiter", "atom", "cupy-wheel", "cupy", "nixl", "lmcache", "vllm",
    "runtime",
  ]
}

group "torch" {
  targets = ["triton", "pytorch", "torchvision"]
}

group "serving" {
  targets = ["atom", "nixl", "lmcache", "vllm"]
}

# What every image has.
target "_common" {
  context = "docker"
  contexts = {
    debian = "docker-image://docker.io/library/debian:trixie-slim"
  }
  args = {
    SOURCE_DATE_EPOCH = effective.SDE_EPOCH
  }
  labels = {
    "org.opencontainers.image.source"   = effective.SOURCE_URL
    "org.opencontainers.image.revision" = VCS_REF
    "org.opencontainers.image.created"  = BUILD_DATE
  }
  # A provenance attestation has the time of its build, so no image would have the digest of another build of it.
  attest = ["type=provenance,disabled=true"]
  # The epoch alone sets only the times in the image's configuration, not those of the files in its layers.
  output = ["type=image,rewrite-timestamp=true,registry.insecure=${effective.REGISTRY_INSECURE}"]
}

# What every image that compiles has on top. The store's credentials are no part of it: they come as the secret "aws", given with
# --set '*.secrets=id=aws,src=...', because a secret named here would make every other use of this file need its source.
target "_compile" {
  inherits = ["_common"]
  contexts = {
    sccache = sibling("sccache")
  }
  args = {
    SCCACHE_BUCKET            = SCCACHE_BUCKET
    SCCACHE_REGION            = SCCACHE_REGION
    SCCACHE_S3_KEY_PREFIX     = effective.SCCACHE_S3_KEY_PREFIX
    SCCACHE_WEBDAV_ENDPOINT   = webdav_endpoint()
    SCCACHE_WEBDAV_KEY_PREFIX = effective.SCCACHE_WEBDAV_KEY_PREFIX
    SCCACHE_LOG               = effective.SCCACHE_LOG
    REQUIRE_SCCACHE           = effective.REQUIRE_SCCACHE
    FORCE_RECACHE             = effective.FORCE_RECACHE
    MAX_JOBS                  = MAX_JOBS
    # For BuildKit's own check of Dockerfiles (bake --check): the key prefixes above are folders, and no keys.
    BUILDKIT_DOCKERFILE_CHECK = "skip=SecretsUsedInArgOrEnv"
  }
  # The argument alone would force one build: the layer cache has the answer to the next.
  no-cache-filter = effective.FORCE_RECACHE == "true" ? ["build", "ucx"] : []
}

# What every image that compiles GPU code has on top.
target "_device" {
  inherits = ["_compile"]
  args = {
    PYTORCH_ROCM_ARCH = join(";", architectures)
  }
}

target "sccache" {
  inherits    = ["_common"]
  description = "sccache, built from source; the stage that every compiling target mounts."
  dockerfile  = "Dockerfile.sccache"
  tags        = [image("sccache")]
  cache-from  = cache_from("sccache")
  cache-to    = cache_to("sccache")
  # RUST_VERSION is vLLM's choice; the compiler of this tool must not move with it. Debian 12 is older than every image that runs it,
  # so the binary asks for no newer C library than they have.
  contexts = {
    rust = "docker-image://docker.io/library/rust:1.95-slim-bookworm"
  }
  args = {
    BUILDKIT_BUILD_NAME = record_name("sccache")
    SCCACHE_VERSION     = effective.SCCACHE_VERSION
  }
}

# Without a layer cache: from a registry that another box has filled its compile step would come CACHED, and so show nothing.
target "cache-probe" {
  inherits    = ["_compile"]
  description = "Compiles a Debian source package through sccache: shows that the compile cache works, and what it saves."
  dockerfile  = "Dockerfile.cache-probe"
  tags        = [image("cache-probe")]
  args = {
    BUILDKIT_BUILD_NAME = record_name("cache-probe")
  }
}

target "rocm" {
  inherits    = ["_common"]
  description = "The ROCm SDK that everything is compiled with."
  dockerfile  = "Dockerfile.rocm"
  tags        = [image("rocm")]
  cache-from  = cache_from("rocm")
  cache-to    = cache_to("rocm")
  args = {
    BUILDKIT_BUILD_NAME = record_name("rocm")
    SOURCE_DATE_EPOCH   = epoch(SDE_ROCM)
    ROCM_VERSION        = effective.ROCM_VERSION
  }
}

target "base" {
  inherits    = ["_common"]
  description = "ROCm with the Python that every wheel is built for."
  dockerfile  = "Dockerfile.base"
  tags        = [image("base")]
  cache-from  = cache_from("base")
  cache-to    = cache_to("base")
  contexts = {
    rocm = sibling("rocm")
  }
  args = {
    BUILDKIT_BUILD_NAME = record_name("base")
    SOURCE_DATE_EPOCH   = epoch(SDE_BASE)
    PYTHON_VERSION      = effective.PYTHON_VERSION
  }
}

target "triton" {
  inherits    = ["_compile"]
  description = "The Triton wheel."
  dockerfile  = "Dockerfile.triton"
  tags        = [image("triton")]
  cache-from  = cache_from("triton")
  cache-to    = cache_to("triton")
  labels      = version_label(effective.TRITON_VERSION)
  contexts = {
    base = sibling("base")
  }
  args = {
    BUILDKIT_BUILD_NAME = record_name("triton")
    SOURCE_DATE_EPOCH   = epoch(SDE_TRITON)
    TRITON_VERSION      = effective.TRITON_VERSION
    TRITON_REF          = effective.TRITON_REF
  }
}

target "pytorch" {
  inherits    = ["_device"]
  description = "The PyTorch wheel."
  dockerfile  = "Dockerfile.pytorch"
  tags        = [image("pytorch")]
  cache-from  = cache_from("pytorch")
  cache-to    = cache_to("pytorch")
  labels      = version_label(GIT_REF != "" ? GIT_REF : effective.PYTORCH_VERSION)
  contexts = {
    base = sibling("base")
  }
  args = {
    BUILDKIT_BUILD_NAME    = record_name("pytorch")
    SOURCE_DATE_EPOCH      = epoch(SDE_PYTORCH)
    PYTORCH_VERSION        = effective.PYTORCH_VERSION
    GIT_REF                = GIT_REF
    USE_AITER              = effective.USE_AITER
    USE_FLASH_ATTENTION    = effective.USE_FLASH_ATTENTION
    USE_ROCM_CK_SDPA_GFX12 = USE_ROCM_CK_SDPA_GFX12 == "ON" && length(rdna4) > 0 ? "ON" : "OFF"
  }
}

target "torchvision" {
  inherits    = ["_device"]
  description = "The torchvision wheel."
  dockerfile  = "Dockerfile.torchvision"
  tags        = [image("torchvision")]
  cache-from  = cache_from("torchvision")
  cache-to    = cache_to("torchvision")
  labels      = version_label(effective.TORCHVISION_REF)
  contexts = {
    base    = sibling("base")
    pytorch = sibling("pytorch")
  }
  args = {
    BUILDKIT_BUILD_NAME = record_name("torchvision")
    SOURCE_DATE_EPOCH   = epoch(SDE_TORCHVISION)
    TORCHVISION_REF     = effective.TORCHVISION_REF
  }
}

target "aiter" {
  inherits    = ["_device"]
  description = "The AITER wheel."
  dockerfile  = "Dockerfile.aiter"
  tags        = [image("aiter")]
  cache-from  = cache_from("aiter")
  cache-to    = cache_to("aiter")
  labels      = version_label(effective.AITER_REF)
  contexts = {
    base    = sibling("base")
    triton  = sibling("triton")
    pytorch = sibling("pytorch")
  }
  args = {
    BUILDKIT_BUILD_NAME = record_name("aiter")
    SOURCE_DATE_EPOCH   = epoch(SDE_AITER)
    AITER_REF           = effective.AITER_REF
    USE_FLYDSL          = effective.USE_FLYDSL
    PREBUILD_KERNELS    = PREBUILD_KERNELS != "" ? PREBUILD_KERNELS : "0"
  }
}

target "atom" {
  inherits    = ["_common"]
  description = "The ATOM wheel, pure Python."
  dockerfile  = "Dockerfile.atom"
  tags        = [image("atom")]
  cache-from  = cache_from("atom")
  cache-to    = cache_to("atom")
  labels      = version_label(effective.ATOM_REF)
  contexts = {
    base = sibling("base")
  }
  args = {
    BUILDKIT_BUILD_NAME = record_name("atom")
    ATOM_REPO           = effective.ATOM_REPO
    ATOM_REF            = effective.ATOM_REF
  }
}

target "cupy-wheel" {
  inherits    = ["_device"]
  description = "The CuPy wheel."
  dockerfile  = "Dockerfile.cupy-wheel"
  tags        = [image("cupy-wheel")]
  cache-from  = cache_from("cupy-wheel")
  cache-to    = cache_to("cupy-wheel")
  labels      = version_label(effective.CUPY_REF)
  contexts = {
    base = sibling("base")
  }
  args = {
    BUILDKIT_BUILD_NAME = record_name("cupy-wheel")
    SOURCE_DATE_EPOCH   = epoch(SDE_CUPY)
    CUPY_REF            = effective.CUPY_REF
  }
}

target "cupy" {
  inherits    = ["_common"]
  description = "The base image with CuPy installed."
  dockerfile  = "Dockerfile.cupy"
  tags        = [image("cupy")]
  cache-from  = cache_from("cupy")
  cache-to    = cache_to("cupy")
  contexts = {
    base       = sibling("base")
    cupy-wheel = sibling("cupy-wheel")
  }
  args = {
    BUILDKIT_BUILD_NAME = record_name("cupy")
    SOURCE_DATE_EPOCH   = epoch(SDE_CUPY)
  }
}

target "nixl" {
  inherits    = ["_compile"]
  description = "The NIXL wheel, with the UCX that it moves data by."
  dockerfile  = "Dockerfile.nixl"
  tags        = [image("nixl")]
  cache-from  = cache_from("nixl")
  cache-to    = cache_to("nixl")
  labels      = version_label(effective.NIXL_REF)
  contexts = {
    base = sibling("base")
  }
  args = {
    BUILDKIT_BUILD_NAME = record_name("nixl")
    SOURCE_DATE_EPOCH   = epoch(SDE_NIXL)
    NIXL_REF            = effective.NIXL_REF
    UCX_REF             = effective.UCX_REF
  }
}

target "lmcache" {
  inherits    = ["_device"]
  description = "The LMCache wheel."
  dockerfile  = "Dockerfile.lmcache"
  tags        = [image("lmcache")]
  cache-from  = cache_from("lmcache")
  cache-to    = cache_to("lmcache")
  labels      = version_label(effective.LMCACHE_REF)
  contexts = {
    base    = sibling("base")
    pytorch = sibling("pytorch")
  }
  args = {
    BUILDKIT_BUILD_NAME = record_name("lmcache")
    SOURCE_DATE_EPOCH   = epoch(SDE_LMCACHE)
    LMCACHE_REF         = effective.LMCACHE_REF
  }
}

target "vllm" {
  inherits    = ["_device"]
  description = "The vLLM wheel."
  dockerfile  = "Dockerfile.vllm"
  tags        = [image("vllm")]
  cache-from  = cache_from("vllm")
  cache-to    = cache_to("vllm")
  labels      = version_label(effective.VLLM_REF)
  contexts = {
    base    = sibling("base")
    pytorch = sibling("pytorch")
  }
  args = {
    BUILDKIT_BUILD_NAME = record_name("vllm")
    SOURCE_DATE_EPOCH   = epoch(SDE_VLLM)
    VLLM_REF            = effective.VLLM_REF
    RUST_VERSION        = effective.RUST_VERSION
  }
}

target "runtime" {
  inherits    = ["_common"]
  description = "Everything installed on a ROCm SDK that is cut down to what running takes."
  dockerfile  = "Dockerfile.runtime"
  tags        = [image("runtime")]
  cache-from  = cache_from("runtime")
  cache-to    = cache_to("runtime")
  contexts = {
    base        = sibling("base")
    triton      = sibling("triton")
    pytorch     = sibling("pytorch")
    torchvision = sibling("torchvision")
    aiter       = sibling("aiter")
    atom        = sibling("atom")
    cupy-wheel  = sibling("cupy-wheel")
    nixl        = sibling("nixl")
    lmcache     = sibling("lmcache")
    vllm        = sibling("vllm")
  }
  args = {
    BUILDKIT_BUILD_NAME = record_name("runtime")
    SOURCE_DATE_EPOCH   = epoch(SDE_RUNTIME)
    ROCM_PRUNE_PROFILE  = effective.ROCM_PRUNE_PROFILE
    PYTORCH_ROCM_ARCH   = join(";", architectures)
  }
}
