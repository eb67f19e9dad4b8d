#!/usr/bin/env bash
# Removes both LXD servers of the benchmark `moves` with all their containers, also if an earlier run was killed.
set -euo pipefail
namespace=btestbench-lxd
shopt -s nullglob

# The servers' mounts and loop devices disappear with the last process in their mount namespaces.
if [ -e /run/netns/$namespace ]; then
  while pids=$(ip netns pids $namespace) && [ -n "$pids" ]; do
    xargs kill -KILL <<<"$pids" 2>/dev/null || true
    sleep 0.1
  done
  ip netns delete $namespace
fi

# A killed container's processes leave its cgroups a moment later.
cgroups() { find /sys/fs/cgroup -depth -type d -path '*/lxc.*.btestbench-moved*'; }
for _ in {1..100}; do
  [ -n "$(cgroups)" ] || break
  cgroups | xargs rmdir 2>/dev/null || sleep 0.1
done

rm -rf --one-file-system /var/tmp/$namespace /run/lxc/lock/var/tmp/$namespace
