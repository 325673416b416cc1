# The images of a box that cannot reach the registry of base images.
target "_common" {
  contexts = {
    debian = "oci-layout:///opt/rocm-build-box/ami/debian:latest"
  }
}

target "_compile" {
  contexts = {
    sccache = "ami/sccache"
  }
}
