#!/bin/bash
# install-packages PACKAGE...
#
# Installs packages of the distribution, and removes what would differ between two images with the same packages: logs, caches that
# record times, and the identity that systemd, which some libraries bring, gives each machine.
set -euo pipefail

if (($# == 0)); then
	echo "install-packages: usage: install-packages PACKAGE..." >&2
	exit 2
fi

apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends "$@"
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /var/cache/debconf/*-old \
	/etc/machine-id /var/cache/ldconfig/aux-cache /var/log/alternatives.log /var/log/apt /var/log/dpkg.log
