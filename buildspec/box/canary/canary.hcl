# Appended to the project's bake file by buildspec/box/canary.py, so that the canary runs in the builder and on the base
# image of the images themselves.

target "canary" {
  inherits   = ["_common"]
  context    = "buildspec/box/canary"
  dockerfile = "Dockerfile"
  # Neither pushed nor kept: only what the step prints is of interest.
  output = ["type=cacheonly"]
}
