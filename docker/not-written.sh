#!/bin/bash
# not-written IMAGE
#
# The only step of an image that has its inputs but no steps of its own yet: fails the build, and says whose it is.
echo "the image $1 cannot be built: docker/Dockerfile.$1 has no steps yet" >&2
exit 1
