#!/bin/bash
# fetch-source VARIABLE REPO REF FOLDER [--submodules] [--any-ref | --release]
#
# Clones exactly REF of the git repository REPO, and no history, into FOLDER: a tag, with or without refs/tags/, or a full commit.
# With --any-ref a branch as well, and with --release nothing but the number of a release, whose tag has a v before it. VARIABLE is
# the bake variable that holds REF, for the messages. The exit status is 2 for wrong arguments, and 1 for anything that the
# repository does not have.
set -euo pipefail
shopt -s inherit_errexit

fail() {
	local status=$1
	shift
	echo "fetch-source: $*" >&2
	exit "$status"
}

readonly usage="usage: fetch-source VARIABLE REPO REF FOLDER [--submodules] [--any-ref | --release]"
(($# >= 4)) || fail 2 "$usage"
readonly variable=$1 repo=$2 ref=$3 folder=$4
shift 4
submodules=false any_ref=false release=false
for option in "$@"; do
	case $option in
	--submodules) submodules=true ;;
	--any-ref) any_ref=true ;;
	--release) release=true ;;
	*) fail 2 "$option is no option; $usage" ;;
	esac
done

refs() {
	git ls-remote --refs "$repo" "$@" || fail 1 "$variable: $repo cannot be read; what git says is above"
}

# Prints ", such as " and the releases on either side of where REF would be among them, as VARIABLE may name them.
nearest_releases() {
	local tag=${ref#refs/tags/} as='\1'
	! $release || as='\2'
	{
		refs 'refs/tags/*' | sed --quiet --regexp-extended "s|^.*\trefs/tags/(v?([0-9]+(\.[0-9]+)+.*))\$|\2 $as|p"
		echo "${tag#v} wanted"
	} | sort --version-sort | awk '
		{ release[NR] = $2 }
		$2 == "wanted" { wanted = NR }
		END {
			for (i = wanted - 2; i <= wanted + 2; i++)
				if (i != wanted && i in release) near = near (near == "" ? ", such as " : ", ") release[i]
			print near
		}'
}

# Prints the full name of what REF names.
full_name() {
	local names=("$ref") name found near
	if $release; then
		names=("refs/tags/v$ref")
	elif [[ $ref =~ ^[0-9a-f]{40}$ ]]; then
		echo "$ref"
		return
	elif [[ $ref != refs/* ]]; then
		names=("refs/tags/$ref" "refs/heads/$ref")
	fi
	found=$(refs "${names[@]}")
	for name in "${names[@]}"; do
		[[ $found$'\n' == *$'\t'$name$'\n'* ]] || continue
		[[ $name == refs/tags/* ]] || $any_ref ||
			fail 1 "$variable is \"$ref\", which is no tag of $repo but a branch: set it to a tag or a full commit," \
				"because a branch moves and what was cloned once is served from the layer cache"
		echo "$name"
		return
	done
	near=$(nearest_releases)
	! $release || fail 1 "$variable is \"$ref\", and $repo has no tag v$ref: set it to one of its releases$near"
	fail 1 "$variable is \"$ref\", which $repo does not have: set it to one of its tags$near, or to a full commit"
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
