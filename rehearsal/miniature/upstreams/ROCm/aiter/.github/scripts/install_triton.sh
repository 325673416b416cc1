#!/bin/bash
# Puts AITER's own choice of Triton in place of the one that is installed.
echo "this AITER would replace the Triton that is installed: set AITER_USE_SYSTEM_TRITON=1" >&2
exit 1
