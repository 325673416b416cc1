# The images of a box that cannot reach the registry of base images.
target "_common" {
  contexts = {
    debian = "oci-layout:///opt/rocm-build-box/ami/debian:latest"
  }
}

# An image like the real one: a folder as a context would be a key that no registry's layer cache knows.
target "sccache" {
  context           = "ami/sccache"
  dockerfile-inline = "FROM scratch\nCOPY sccache /sccache\n"
}
