#!/bin/sh
# Hook of mmdebstrap: installs buildx the way the user data does, from the newer suite, by the same preferences.
# usage: PREFERENCES=text install-buildx.sh ROOT
set -eu
mirror=$(sed -n 's/^deb \([^ ]*\) .*/\1/p' "$1/etc/apt/sources.list" | head -n 1)
printf '%s' "$PREFERENCES" >"$1/etc/apt/preferences.d/newer"
printf 'deb %s forky main\n' "$mirror" >"$1/etc/apt/sources.list.d/newer.list"
chroot "$1" apt-get update
chroot "$1" apt-get install --yes --no-install-recommends docker-buildx
rm "$1/etc/apt/sources.list.d/newer.list" "$1/etc/apt/preferences.d/newer"
