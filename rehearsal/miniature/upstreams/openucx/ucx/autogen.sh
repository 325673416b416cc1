#!/bin/sh
# Makes the configure script.
set -e
cd "$(dirname "$0")"
autoreconf --install --force
