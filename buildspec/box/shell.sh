#!/bin/bash
# Runs the commands it reads from standard input, each ended by a NUL byte, in this one shell, so that a variable or a
# directory that one command sets is there for the next. After each it prints the mark, its first argument, and the exit code.
readonly rocm_build_mark="$1"
shift
while IFS= read -r -d '' rocm_build_command; do
	eval "$rocm_build_command" </dev/null
	printf '%s %s\n' "$rocm_build_mark" "$?"
done
