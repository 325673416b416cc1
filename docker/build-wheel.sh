#!/bin/bash
# build-wheel FOLDER OUT [UV-ARGUMENT...]
#
# Builds the Python project in FOLDER with what is installed, and puts its wheel into OUT. The same project built again at the same
# place gives the same file.
set -euo pipefail

fail() {
	echo "build-wheel: $*" >&2
	exit 2
}

(($# >= 2)) || fail "usage: build-wheel FOLDER OUT [UV-ARGUMENT...]"
folder=$1 out=$(realpath --canonicalize-missing "$2")
readonly folder out
shift 2
# Times in a wheel are this one, or the time of the build.
[[ ${SOURCE_DATE_EPOCH-} =~ ^[0-9]+$ ]] ||
	fail "SOURCE_DATE_EPOCH is \"${SOURCE_DATE_EPOCH-}\": declare it in the stage (ARG SOURCE_DATE_EPOCH); Bake gives it to each target"

# The rest of what differs between two builds: the order of Python's sets, and who may read the files.
export PYTHONHASHSEED=0
umask 022
built=$(mktemp --directory)
trap 'rm -rf "$built"' EXIT
python=$(command -v python)
# Without isolation, which would fetch the newest build tools in place of those that are installed, and without what the project
# tells its own developers' uv. Not with pip, which asks the project for its metadata first: most run their setup.py twice then.
uv build --wheel --no-build-isolation --no-config --no-cache --python="$python" --out-dir="$built" "$@" "$folder"

mkdir -p "$out"
cd "$built"
for wheel in *.whl; do
	read -r sum _ < <(sha256sum "$wheel")
	echo "build-wheel: $wheel, $(stat --format=%s "$wheel") bytes, sha256 $sum"
	mv "$wheel" "$out/"
done
