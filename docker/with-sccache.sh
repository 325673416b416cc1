#!/bin/bash
# with-sccache [--gib-per-job N] STEP COMMAND [ARGUMENT...]
#
# Runs one compiling command of a Dockerfile against the shared compile cache, and reports what the cache did on one line:
#   rocm-build-stats: {"step": STEP, "seconds": wall time of COMMAND, "sccache": sccache's statistics, or null without it}
# The exit status is COMMAND's; 1 when the cache is required and cannot be used; 2 for wrong arguments or values.
# --gib-per-job is for a step whose compiler needs more memory than the 4 GiB that MAX_JOBS is derived with.
#
# COMMAND finds the compiler launcher where each build system looks for it: CMAKE_<language>_COMPILER_LAUNCHER, RUSTC_WRAPPER,
# HIP_CLANG_LAUNCHER, and COMPILER_LAUNCHER for those that look nowhere (make CC="$COMPILER_LAUNCHER gcc"). CC itself stays as it
# is: with CC="sccache gcc", CMake would put its own launcher in front, and sccache refuses to launch itself.
# MAX_JOBS is the number of jobs to run at once.
#
# A shell script, because the images that compile need not have Python.
set -euo pipefail

readonly secret=/run/secrets/aws
gib_per_job=4

fail() {
	local status=$1
	shift
	echo "with-sccache: $*" >&2
	exit "$status"
}

readonly usage="usage: with-sccache [--gib-per-job N] STEP COMMAND [ARGUMENT...], N being a whole number from 1,\
 STEP of letters, digits, dots, underscores and dashes"
needs_more=false
if [[ ${1-} == --gib-per-job ]]; then
	[[ ${2-} =~ ^[1-9][0-9]*$ ]] || fail 2 "$usage"
	needs_more=true
	gib_per_job=$2
	shift 2
fi
if (($# < 2)) || [[ ! $1 =~ ^[A-Za-z0-9._][A-Za-z0-9._-]*$ ]]; then
	fail 2 "$usage"
fi
readonly step=$1
shift

# A build argument left empty arrives as an empty variable, which sccache and the AWS credential chain take for a (bad) value.
for name in "${!SCCACHE_@}" "${!AWS_@}" REQUIRE_SCCACHE FORCE_RECACHE MAX_JOBS; do
	[[ -n ${!name-} ]] || unset "$name"
done

case ${REQUIRE_SCCACHE-1} in
0 | 1) ;;
*) fail 2 "REQUIRE_SCCACHE is \"$REQUIRE_SCCACHE\": allowed are 1 (insist on the compile cache) and 0 (build without it when it fails)" ;;
esac
case ${FORCE_RECACHE-false} in
true) export SCCACHE_RECACHE=1 ;;
# sccache looks only whether the variable exists.
false) unset SCCACHE_RECACHE ;;
*) fail 2 "FORCE_RECACHE is \"$FORCE_RECACHE\": allowed are true (compile everything again) and false" ;;
esac

available_gib=$(awk '$1 == "MemAvailable:" { print int($2 / 1024 / 1024) }' /proc/meminfo)
fitting_jobs=$((available_gib / gib_per_job))
((fitting_jobs >= 1)) || fitting_jobs=1
if [[ ! -v MAX_JOBS ]]; then
	cpus=$(nproc)
	MAX_JOBS=$((fitting_jobs < cpus ? fitting_jobs : cpus))
fi
[[ $MAX_JOBS =~ ^[1-9][0-9]*$ ]] || fail 2 "MAX_JOBS is \"$MAX_JOBS\": allowed are whole numbers from 1"
if $needs_more && ((MAX_JOBS > fitting_jobs)); then
	echo "with-sccache: $step runs $fitting_jobs jobs instead of the $MAX_JOBS of MAX_JOBS:" \
		"each needs $gib_per_job GiB, and $available_gib GiB are available" >&2
	MAX_JOBS=$fitting_jobs
fi
export MAX_JOBS

# A folder of this step's own, and a socket instead of a port: steps that share a network namespace would share one server, and with
# it one set of statistics. All of it is gone before the layer is committed.
run_folder=$(mktemp --directory /tmp/with-sccache.XXXXXXXX)
readonly run_folder server_log=$run_folder/server.log start_log=$run_folder/start.log
export SCCACHE_SERVER_UDS=$run_folder/socket
# Build steps have no business with the metadata service, and waiting for it to refuse would cost the server its start.
export AWS_EC2_METADATA_DISABLED=true
log_level=${SCCACHE_LOG-off}
# Left to the compiler launches as well, it would mix log lines into every compiler's messages.
unset SCCACHE_LOG

# The server is a daemon, and tells nobody its number; no other process has the name of its log in its environment. An environment
# that cannot be read is another user's or that of a process which has ended.
server_processes() {
	grep --files-with-matches --null-data --line-regexp --fixed-strings "SCCACHE_ERROR_LOG=$server_log" /proc/[0-9]*/environ \
		2>/dev/null | cut --delimiter=/ --fields=3 || true
}

server_ends() {
	local looks
	for ((looks = 0; looks < 110; looks++)); do
		[[ -n $(server_processes) ]] || return 0
		sleep 0.1
	done
	return 1
}

# sccache answers the request to stop before it ends, up to 10 s later when a client is still connected (SHUTDOWN_TIMEOUT in its
# src/server.rs), and may write to its log until then. A server that hangs before it listens cannot be asked.
end_server() {
	sccache --stop-server >/dev/null 2>&1 || true
	if ! server_ends; then
		echo "with-sccache: the sccache server does not stop, and is killed" >&2
		# The shell's own kill, because slim images have no other. It fails for a process that has ended meanwhile, which is well.
		server_processes | while read -r process; do kill -KILL "$process" || true; done
		server_ends || true
	fi
}
trap 'end_server; rm -rf "$run_folder"' EXIT

# Exports NAME=value lines. They are read, not sourced: the shell would print, and so log, part of a line that it cannot run.
read_credentials() {
	local line number=0
	while IFS= read -r line || [[ -n $line ]]; do
		number=$((number + 1))
		if [[ $line =~ ^(AWS_[A-Z0-9_]+)=([^[:space:]\"\'\\]*)$ ]]; then
			[[ -z ${BASH_REMATCH[2]} ]] || export "${BASH_REMATCH[1]}=${BASH_REMATCH[2]}"
		elif [[ -n $line ]]; then
			echo "line $number of the secret aws is not of the form AWS_NAME=value, without quotes or blanks" >&2
			return 1
		fi
	done <"$secret"
}

# In a subshell: only the server needs the credentials, and a build script that logs its environment must not find them there.
start_server() (
	if [[ -e $secret ]]; then
		read_credentials || exit
	fi
	export SCCACHE_IDLE_TIMEOUT=0 SCCACHE_ERROR_LOG=$server_log SCCACHE_LOG=$log_level
	exec sccache --start-server
)

show_stats() {
	sccache --show-stats --stats-format=json
}

# The server's log, less the one warning that it gives for every miss: on a cold cache that is a long line a compile.
show_log() {
	sed '/ read failed NotFound /d' "$server_log"
}

# Prints why the cache cannot be used, and fails, when it cannot.
start_cache() {
	if [[ ! -v SCCACHE_BUCKET && ! -v SCCACHE_WEBDAV_ENDPOINT ]]; then
		echo "no store is named: set SCCACHE_BUCKET and SCCACHE_REGION, or SCCACHE_WEBDAV_ENDPOINT"
		return 1
	fi
	: >"$server_log"
	if ! start_server >"$start_log" 2>&1; then
		end_server
		cat "$start_log"
		show_log
		return 1
	fi
	# A store that refuses the write of its check leaves the server read-only for its life, without a word.
	if [[ $(show_stats) != *'"effective_cache_mode":"ReadWrite"'* ]]; then
		echo "$(sccache --version) does not report that the store takes writes"
		end_server
		show_log
		return 1
	fi
}

server_runs=false
COMPILER_LAUNCHER=
if reason=$(start_cache); then
	server_runs=true
	COMPILER_LAUNCHER=sccache
	export RUSTC_WRAPPER=sccache CMAKE_{C,CXX,HIP}_COMPILER_LAUNCHER=sccache HIP_CLANG_LAUNCHER=sccache
elif [[ ${REQUIRE_SCCACHE-1} == 1 ]]; then
	fail 1 "the compile cache cannot be used, and REQUIRE_SCCACHE=1 refuses to compile without it: $reason"
else
	echo "with-sccache: compiling without the compile cache, as REQUIRE_SCCACHE=0 allows: $reason" >&2
fi
export COMPILER_LAUNCHER

monotonic_centiseconds() {
	local uptime
	read -r uptime _ </proc/uptime
	echo "${uptime/./}"
}

# Of the whole machine: a build step's own control group counts only where the memory controller is passed down to it.
out_of_memory_kills() {
	awk '$1 == "oom_kill" { print $2 }' /proc/vmstat
}

kills_before=$(out_of_memory_kills)
started=$(monotonic_centiseconds)
status=0
"$@" || status=$?
elapsed=$(($(monotonic_centiseconds) - started))
kills=$(($(out_of_memory_kills) - kills_before))

statistics=null
if $server_runs; then
	# Each compile waits for its cache write, so nothing is outstanding here.
	statistics=$(show_stats) || statistics=null
	end_server
	show_log >&2
fi
# The line break in front ends a last line that COMMAND left open.
printf '\nrocm-build-stats: {"step": "%s", "seconds": %d.%02d, "sccache": %s}\n' \
	"$step" $((elapsed / 100)) $((elapsed % 100)) "$statistics"
if ((status != 0 && kills > 0)); then
	if ((MAX_JOBS > 1)); then
		fix="set MAX_JOBS to $((MAX_JOBS / 2))"
	else
		fix="take a machine with more memory"
	fi
	echo "with-sccache: $step ran out of memory with MAX_JOBS=$MAX_JOBS: the kernel's out-of-memory killer struck $kills" \
		"time(s) while it ran; $fix" >&2
fi
exit "$status"
