# Every step runs on every box: with the layer cache that another box has left, no compile step would run, and none would
# show what the compile cache does.
target "_common" {
  no-cache = true
}

# An image, as sccache is outside of a rehearsal: a folder as the context would hide what is mounted from the layer caches of
# other targets (docs/adr/0033-scripts-in-a-stage.md).
target "_compile" {
  contexts = {
    sccache = "target:sccache"
  }
}

target "sccache" {
  context           = "ami/sccache"
  dockerfile-inline = "FROM scratch\nCOPY sccache /sccache\n"
}

# The images that play AMD's ROCm and the Rust toolchain, in place of those of Docker Hub. BuildKit looks an image up by its
# short name, without docker.io.
target "rocm" {
  contexts = {
    ("rocm/dev-ubuntu-24.04:${effective.ROCM_VERSION}") = "oci-layout:///opt/rocm-build-box/ami/rocm:latest"
  }
}

target "vllm" {
  contexts = {
    ("rust:${effective.RUST_VERSION}-slim-bookworm") = "oci-layout:///opt/rocm-build-box/ami/rust:latest"
  }
}
