# The single source of every value a build reads: values written twice would drift, so the Makefile, the documentation and the
# Pulumi settings read theirs from here. An environment variable of the same name overrides a default.
#
# Every variable is a string, numbers and switches included. A variable that is set but empty overrides its default, and Bake turns
# that into an error for a number or a bool; for a string it is the empty value that each description defines.

# --- Versions and refs --------------------------------------------------------------------------------------------------------

variable "PYTORCH_VERSION" {
  default     = "2.15.0"
  description = "PyTorch release to build. Set by whoever moves the stack to a new release; may not be empty."
}

variable "ROCM_VERSION" {
  default     = "10.1.0-full"
  description = "ROCm release, as the tag of its base image. Set by whoever moves the stack to a new ROCm; may not be empty."
}

variable "PYTHON_VERSION" {
  default     = "3.14"
  description = "Python minor version that every wheel is built for. Set by whoever moves the stack; may not be empty."
}

variable "TRITON_VERSION" {
  default     = "3.9.0"
  description = "Version the Triton wheel carries; belongs to TRITON_REF. Set together with it; may not be empty."
}

variable "TRITON_REF" {
  default     = "aad2a60d958f945420c5c40936b37d411fb02e89"
  description = "Triton commit to build. Set to the commit that the PyTorch release pins; may not be empty."
}

variable "AITER_REF" {
  default     = "v0.1.29"
  description = "AITER release tag. A tag, never a branch: the clone is cached by this string. May not be empty."
}

variable "TORCHVISION_REF" {
  default     = "v0.29.2"
  description = "torchvision release tag that matches PYTORCH_VERSION. May not be empty."
}

variable "ATOM_REF" {
  default     = "v0.1.9"
  description = "ATOM release tag in ATOM_REPO. A tag, never a branch: the clone is cached by this string. May not be empty."
}

variable "NIXL_REF" {
  default     = "v1.5.2"
  description = "NIXL release tag. May not be empty."
}

variable "UCX_REF" {
  default     = "v1.22.0"
  description = "UCX release tag, the transport under NIXL. May not be empty."
}

variable "VLLM_REF" {
  default     = "v0.33.0"
  description = "vLLM release tag. A tag, never a branch: the clone is cached by this string. May not be empty."
}

variable "CUPY_REF" {
  default     = "v14.2.0"
  description = "CuPy release tag. May not be empty."
}

variable "LMCACHE_REF" {
  default     = "v0.5.7"
  description = "LMCache release tag. A tag, never a branch: the clone is cached by this string. May not be empty."
}

variable "RUST_VERSION" {
  default     = "1.95"
  description = "Rust toolchain for vLLM's Rust parts. Follows the channel in vLLM's rust-toolchain.toml; may not be empty."
}

variable "GIT_REF" {
  default     = ""
  description = "PyTorch ref to build instead of a release, such as refs/heads/develop. Set for one build; empty builds PYTORCH_VERSION."
}

variable "ATOM_REPO" {
  default     = "https://github.com/ROCm/ATOM.git"
  description = "Git repository that ATOM_REF is a tag of. Set, together with ATOM_REF, to build a fork; may not be empty."
}

# --- Registry -----------------------------------------------------------------------------------------------------------------

variable "REGISTRY" {
  default     = "snoc-strix.fold-leaffish.ts.net:8080"
  description = "Host and port of the registry that images and layer caches go to. The box sets its own; may not be empty."
}

variable "REGISTRY_NAME" {
  default     = "rocm-pytorch"
  description = "Repository within REGISTRY; a target's image is tagged with the target's name. The box sets its own; may not be empty."
}

variable "REGISTRY_INSECURE" {
  default     = "true"
  description = "true allows plain HTTP and skips certificate checks for the layer caches; false for any registry with TLS, which the box sets. Empty means false."

  validation {
    condition     = contains(["", "false", "true"], REGISTRY_INSECURE)
    error_message = "REGISTRY_INSECURE is \"${REGISTRY_INSECURE}\": set it to true for a plain HTTP registry, else to false."
  }
}

variable "SOURCE_URL" {
  default     = "https://github.com/sbates130272/rocm-pytorch-build"
  description = "Address of these sources, for the image label. Set by a fork; empty leaves the label empty."
}

# --- Architecture and build shape ---------------------------------------------------------------------------------------------

variable "PYTORCH_ROCM_ARCH" {
  default     = "gfx950"
  description = "GPU architectures to compile for, separated by semicolons; a list makes one fat binary. Set per deployment; may not be empty."
}

variable "USE_AITER" {
  default     = "ON"
  description = "ON or OFF: PyTorch with AITER kernels. Set per build; empty means OFF."
}

variable "USE_FLYDSL" {
  default     = "ON"
  description = "ON or OFF: FlyDSL kernels. Set per build; empty means OFF."
}

variable "USE_FLASH_ATTENTION" {
  default     = "ON"
  description = "ON or OFF: PyTorch with flash attention. Set per build; empty means OFF."
}

variable "USE_ROCM_CK_SDPA_GFX12" {
  default     = ""
  description = "ON builds the Composable Kernel SDPA for RDNA4, which takes effect on a gfx12 target only. Set per build; empty means OFF."
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
  description = "Level of AITER kernels to compile ahead, from 0. Set per build; empty means 0 on every architecture."
}

variable "ROCM_PRUNE_PROFILE" {
  default     = "keep-toolchain"
  description = "How hard the ROCm SDK is cut down: keep-toolchain, or minimal, which drops the headers and the HIP CMake package too. May not be empty."
}

# --- Compiler cache -----------------------------------------------------------------------------------------------------------

variable "SCCACHE_WEBDAV_HOST" {
  default     = "snoc-strix.fold-leaffish.ts.net"
  description = "Host of the WebDAV store, for builds on the fleet. Unused with SCCACHE_BUCKET or SCCACHE_WEBDAV_ENDPOINT; empty means no WebDAV store."
}

variable "SCCACHE_WEBDAV_PORT" {
  default     = "8081"
  description = "Port of the WebDAV store at SCCACHE_WEBDAV_HOST. Empty means the port of plain HTTP, 80."
}

variable "SCCACHE_WEBDAV_ENDPOINT" {
  default     = ""
  description = "Whole address of the WebDAV store. The Makefile sets a resolved one; empty composes it from host and port."
}

variable "SCCACHE_WEBDAV_KEY_PREFIX" {
  default     = "rocm-pytorch"
  description = "Folder within the WebDAV store. Set to keep projects apart; empty means the store's root."
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
  default     = "rocm-pytorch"
  description = "Key prefix within SCCACHE_BUCKET. The box sets the one its role may write; empty means the bucket's root."
}

variable "SCCACHE_LOG" {
  default     = "warn"
  description = "Log level of the sccache server; debug shows what its cache errors count. Set for one build; empty logs nothing."
}

variable "SCCACHE_VERSION" {
  default     = "0.19.0"
  description = "sccache release to build. Older ones cannot say whether the store takes writes, and so are refused; may not be empty."
}

variable "REQUIRE_SCCACHE" {
  default     = "1"
  description = "1 refuses to compile when the store cannot be read and written; 0 compiles uncached then. Set for one build; empty means 1."

  validation {
    condition     = contains(["", "0", "1"], REQUIRE_SCCACHE)
    error_message = "REQUIRE_SCCACHE is \"${REQUIRE_SCCACHE}\": set it to 1 to insist on the compile cache, or to 0 to build without it when it fails."
  }
}

variable "FORCE_RECACHE" {
  default     = "false"
  description = "true compiles everything and overwrites what the compile cache holds. Set for one build; empty means false."

  validation {
    condition     = contains(["", "false", "true"], FORCE_RECACHE)
    error_message = "FORCE_RECACHE is \"${FORCE_RECACHE}\": set it to true to compile everything again, else to false."
  }
}

# --- Reproducibility ----------------------------------------------------------------------------------------------------------

variable "SDE_EPOCH" {
  default     = "1700000000"
  description = "SOURCE_DATE_EPOCH of every image, in seconds; a constant, so that equal inputs give equal images. Empty leaves times as they are."
}

variable "SDE_ROCM" {
  default     = ""
  description = "SOURCE_DATE_EPOCH of the ROCm image alone. Set to rebuild just that one; empty means SDE_EPOCH."
}

variable "SDE_BASE" {
  default     = ""
  description = "SOURCE_DATE_EPOCH of the base image alone. Set to rebuild just that one; empty means SDE_EPOCH."
}

variable "SDE_PYTORCH" {
  default     = ""
  description = "SOURCE_DATE_EPOCH of the PyTorch image alone. Set to rebuild just that one; empty means SDE_EPOCH."
}

variable "SDE_TRITON" {
  default     = ""
  description = "SOURCE_DATE_EPOCH of the Triton image alone. Set to rebuild just that one; empty means SDE_EPOCH."
}

variable "SDE_AITER" {
  default     = ""
  description = "SOURCE_DATE_EPOCH of the AITER image alone. Set to rebuild just that one; empty means SDE_EPOCH."
}

variable "SDE_RUNTIME" {
  default     = ""
  description = "SOURCE_DATE_EPOCH of the runtime image alone. Set to rebuild just that one; empty means SDE_EPOCH."
}

variable "SDE_NIXL" {
  default     = ""
  description = "SOURCE_DATE_EPOCH of the NIXL image alone. Set to rebuild just that one; empty means SDE_EPOCH."
}

variable "SDE_VLLM" {
  default     = ""
  description = "SOURCE_DATE_EPOCH of the vLLM image alone. Set to rebuild just that one; empty means SDE_EPOCH."
}

variable "SDE_LMCACHE" {
  default     = ""
  description = "SOURCE_DATE_EPOCH of the LMCache image alone. Set to rebuild just that one; empty means SDE_EPOCH."
}

variable "SDE_CUPY" {
  default     = ""
  description = "SOURCE_DATE_EPOCH of the CuPy image alone. Set to rebuild just that one; empty means SDE_EPOCH."
}

variable "SDE_TORCHVISION" {
  default     = ""
  description = "SOURCE_DATE_EPOCH of the torchvision image alone. Set to rebuild just that one; empty means SDE_EPOCH."
}

variable "VCS_REF" {
  default     = ""
  description = "Commit that is built, with -dirty for a changed tree, for the image label. Set by the Makefile and the box; empty leaves the label empty."
}

variable "BUILD_DATE" {
  default     = ""
  description = "Time of that commit, RFC 3339, for the image label. Set by the Makefile and the box; empty leaves the label empty."
}

# --- Caching and scheduling ---------------------------------------------------------------------------------------------------

variable "CACHE_TAG_SUFFIX" {
  default     = ""
  description = "Suffix of the layer caches' tags; -ref refreshes the frozen baseline. Set for one build; empty writes the rolling tag."
}

variable "PUBLISHED_INPUTS" {
  default     = ""
  description = "1 takes sibling images from the registry instead of building them. Set by builds that run side by side; empty builds them."
}

variable "RUN_ID" {
  default     = "dev"
  description = "Name of this run in BuildKit's history records. The box sets its own; empty leaves the run out of the name."
}

# --- Targets ------------------------------------------------------------------------------------------------------------------

function "image" {
  params = [target]
  result = "${REGISTRY}/${REGISTRY_NAME}:${target}"
}

function "webdav_endpoint" {
  params = []
  result = (SCCACHE_WEBDAV_ENDPOINT != "" ? SCCACHE_WEBDAV_ENDPOINT :
    SCCACHE_WEBDAV_HOST == "" ? "" :
  "http://${join(":", compact([SCCACHE_WEBDAV_HOST, SCCACHE_WEBDAV_PORT]))}")
}

# What every image has.
target "_common" {
  context = "docker"
  contexts = {
    debian = "docker-image://docker.io/library/debian:trixie-slim"
  }
  args = {
    SOURCE_DATE_EPOCH = SDE_EPOCH
  }
  labels = {
    "org.opencontainers.image.source"   = SOURCE_URL
    "org.opencontainers.image.revision" = VCS_REF
    "org.opencontainers.image.created"  = BUILD_DATE
  }
}

# What every image that compiles has on top. The store's credentials are no part of it: they come as the secret "aws", given with
# --set '*.secrets=id=aws,src=...', because a secret named here would make every other use of this file need its source.
target "_compile" {
  inherits = ["_common"]
  contexts = {
    sccache = "target:sccache"
  }
  args = {
    SCCACHE_BUCKET            = SCCACHE_BUCKET
    SCCACHE_REGION            = SCCACHE_REGION
    SCCACHE_S3_KEY_PREFIX     = SCCACHE_S3_KEY_PREFIX
    SCCACHE_WEBDAV_ENDPOINT   = webdav_endpoint()
    SCCACHE_WEBDAV_KEY_PREFIX = SCCACHE_WEBDAV_KEY_PREFIX
    SCCACHE_LOG               = SCCACHE_LOG
    REQUIRE_SCCACHE           = REQUIRE_SCCACHE
    FORCE_RECACHE             = FORCE_RECACHE
    MAX_JOBS                  = MAX_JOBS
  }
}

target "sccache" {
  inherits    = ["_common"]
  description = "sccache, built from source; the stage that every compiling target mounts."
  dockerfile  = "Dockerfile.sccache"
  tags        = [image("sccache")]
  # RUST_VERSION is vLLM's choice; the compiler of this tool must not move with it. Debian 12 is older than every image that runs it,
  # so the binary asks for no newer C library than they have.
  contexts = {
    rust = "docker-image://docker.io/library/rust:1.95-slim-bookworm"
  }
  args = {
    SCCACHE_VERSION = SCCACHE_VERSION
  }
}

target "cache-probe" {
  inherits    = ["_compile"]
  description = "Compiles a Debian source package through sccache: shows that the compile cache works, and what it saves."
  dockerfile  = "Dockerfile.cache-probe"
  tags        = [image("cache-probe")]
}
