#!/bin/bash
# fetch-debian-source PACKAGE VERSION FOLDER PIN
#
# Unpacks exactly VERSION of a Debian source package, verified by apt, into FOLDER. The mirror is whichever the image's own binary
# packages came from; apt knows sources alone from then on. PIN names the build argument that holds VERSION, for the message when the
# mirror has moved on.
set -euo pipefail

if (($# != 4)); then
	echo "fetch-debian-source: $# arguments; usage: fetch-debian-source PACKAGE VERSION FOLDER PIN" >&2
	exit 2
fi
package=$1 version=$2 folder=$3 pin=$4

# Images name their mirrors either on lines or in paragraphs (deb822). The lists of binary packages are of no use here.
find /etc/apt -name '*.list' -exec sed --in-place 's/^deb /deb-src /' {} + \
	-o -name '*.sources' -exec sed --in-place 's/^Types: .*$/Types: deb-src/' {} +
apt-get update

offered=$(apt-cache showsrc --only-source "$package" | sed -n 's/^Version: //p' | sort --unique --version-sort)
if ! grep --quiet --line-regexp --fixed-strings -- "$version" <<<"$offered"; then
	echo "fetch-debian-source: Debian's mirror no longer has version $version of the source package $package;" \
		"it has: ${offered//$'\n'/, }. Set $pin to one of these." >&2
	exit 1
fi

unpacked=$(mktemp --directory)
cd "$unpacked"
apt-get source --only-source --download-only "$package=$version"
dpkg-source --extract ./*.dsc "$folder"
cd /
rm -rf "$unpacked"
