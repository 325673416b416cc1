#!/bin/bash
# fetch-source VARIABLE REPO REF FOLDER [--submodules] [--any-ref]
#
# Clones exactly REF of the git repository REPO, and no history, into FOLDER: a tag, with or without refs/tags/, or a full commit.
# --any-ref takes a branch as well. VARIABLE is the bake variable that holds REF, for the messages. The exit status is 2 for wrong
# arguments, and 1 for anything that the repository does not have.
set -euo pipefail
shopt -s inherit_errexit

fail() {
	local status=$1
	shift
	echo "fetch-source: $*" >&2
	exit "$status"
}

readonly usage="usage: fetch-source VARIABLE REPO REF FOLDER [--submodules] [--any-ref]"
(($# >= 4)) || fail 2 "$usage"
readonly variable=$1 repo=$2 ref=$3 folder=$4
shift 4
submodules=false any_ref=false
for option in "$@"; do
	case $option in
	--submodules) submodules=true ;;
	--any-ref) any_ref=true ;;
	*) fail 2 "$option is no option; $usage" ;;
	esac
done

# A repository that does not exist is a private one to GitHub, and git would ask for a password until the build is stopped.
export GIT_TERMINAL_PROMPT=0

refs() {
	git ls-remote --refs "$repo" "$@" || fail 1 "$variable: $repo cannot be read; what git says is above"
}

# The releases on either side of where the tag would be among them, whether or not its name begins with a v.
nearest_releases() {
	local tag=$1
	{
		refs 'refs/tags/*' | sed --quiet --regexp-extended 's|^.*\trefs/tags/(v?([0-9]+(\.[0-9]+)+.*))$|\2 \1|p'
		echo "${tag#v} wanted"
	} | sort --version-sort | awk '
		{ release[NR] = $2 }
		$2 == "wanted" { wanted = NR }
		END {
			for (i = wanted - 2; i <= wanted + 2; i++)
				if (i != wanted && i in release) near = near (near == "" ? "" : ", ") release[i]
			print near
		}'
}

# Prints the full name of what REF names.
full_name() {
	local names=("$ref") name found near
	if [[ $ref =~ ^[0-9a-f]{40}$ ]]; then
		echo "$ref"
		return
	fi
	[[ $ref == refs/* ]] || names=("refs/tags/$ref" "refs/heads/$ref")
	found=$(refs "${names[@]}")
	for name in "${names[@]}"; do
		[[ $found$'\n' == *$'\t'$name$'\n'* ]] || continue
		[[ $name == refs/tags/* ]] || $any_ref ||
			fail 1 "$variable is \"$ref\", which is no tag of $repo but a branch: set it to a tag or a full commit," \
				"because a branch moves and what was cloned once is served from the layer cache"
		echo "$name"
		return
	done
	near=$(nearest_releases "${ref#refs/tags/}")
	fail 1 "$variable is \"$ref\", which $repo does not have: set it to one of its tags${near:+, such as $near}, or to a full commit"
}

name=$(full_name)
readonly name
git init --quiet "$folder"
cd "$folder"
git remote add origin "$repo"
refspec=$name
# Tools that make a version of the tag look for it by its name.
[[ $name != refs/tags/* ]] || refspec=$name:$name
git fetch --quiet --depth=1 --no-tags origin "$refspec" ||
	fail 1 "$variable is \"$ref\", which $repo does not hand out; what git says is above"
git checkout --quiet --detach FETCH_HEAD
if $submodules; then
	git submodule --quiet update --init --recursive --depth=1 --jobs=4
fi
# Each file has the time of the commit: a build that compares or records times does the same whenever the files were fetched.
git ls-files -z --recurse-submodules |
	xargs --null --no-run-if-empty touch --no-dereference --date="$(git show --no-patch --format=%cI)" --
echo "fetch-source: $folder is $repo at $name, commit $(git rev-parse HEAD)"
