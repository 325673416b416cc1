#!/bin/bash
# Tries each address,port given, side by side, and prints whether a TCP connection was made. Judging that is the host's
# part.
readonly seconds=3

probe() {
	local check=$1 state=closed
	# shellcheck disable=SC2016 # the inner shell expands these
	if timeout "$seconds" bash -c 'exec 3<>"/dev/tcp/$1/$2"' probe "${check%,*}" "${check##*,}" 2>/dev/null; then
		state=open
	fi
	printf 'rocm-build-canary: %s %s\n' "$check" "$state"
}

for check in "$@"; do
	probe "$check" &
done
wait
