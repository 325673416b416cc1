#!/bin/sh
# Boots a box; runs inside `unshare --mount --pid`, so that its mounts and all its processes end with it.
# usage: boot-box.sh LOWER[:LOWER...] OVERLAY NETNS HYPERVISOR
set -eu
mkdir -p "$2/upper" "$2/work" "$2/root"
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
# systemd 257 boots on the unified hierarchy only; this machine may mix it with the old one.
umount -R /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
# A cgroup of its own: every box names its services alike, and one that ended would take those of another with it.
group=/sys/fs/cgroup/$3
mkdir -p "$group"
echo 0 >"$group/cgroup.procs"
# Without @keyring and bpf no container starts inside (session keyring, device cgroups). VFS_WRITABLE: dockerd writes
# net.* sysctls. Docker's data goes on a tmpfs because overlayfs does not stack on an overlay.
export SYSTEMD_NSPAWN_API_VFS_WRITABLE=network
systemd-nspawn --quiet --directory="$2/root" --register=no --keep-unit --boot --kill-signal=SIGRTMIN+3 \
	--capability=all --system-call-filter='@keyring bpf' --console=read-only \
	--tmpfs=/var/lib/docker:mode=0711,nr_inodes=2000000 --network-namespace-path="/run/netns/$3" --resolv-conf=off \
	--bind-ro="$4:/sys/hypervisor" || code=$?
echo 0 >/sys/fs/cgroup/cgroup.procs
find "$group" -depth -type d -exec rmdir {} +
exit "${code:-0}"
