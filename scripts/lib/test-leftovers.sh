# shellcheck shell=bash
# What a test run that was killed may have left. Everything tests make on the host carries the prefix `btest`,
# in its name or in its directory below /tmp. Sourced, not run.

# Does nothing while another mocha runs: its things are no leftovers.
sweep_test_leftovers() {
  if pgrep -f 'node_modules/(.bin/mocha|mocha/(bin|lib/cli)/)' >/dev/null; then
    note 'another test run is active: leftovers are not looked for'
    return 0
  fi
  sweep_processes
  sweep_network
  sweep_mounts
  sweep_cgroups
  rm -rf --one-file-system /tmp/btest* /dev/shm/btest* /var/tmp/btest* /run/btest* /var/lib/btest* 2>/dev/null || true
}

# Guests' first processes are children of their monitors. Twice: what a supervisor started again meanwhile.
sweep_processes() {
  local pid
  for pid in $(pgrep -f '^\[lxc monitor\] (/tmp|/var/tmp|/run|/var/lib)/btest' || true); do
    pkill -KILL -P "$pid" || true
    kill -KILL "$pid" 2>/dev/null || true
  done
  # A virtual machine has no path among its arguments, and its disk open.
  for pid in $(pgrep '^qemu-system' || true); do
    ! readlink "/proc/$pid"/fd/* 2>/dev/null | grep -qE '^(/tmp|/var/tmp|/run|/var/lib)/btest' ||
      kill -KILL "$pid" 2>/dev/null || true
  done
  for _ in 1 2; do
    for pid in $(pgrep -f '(/tmp|/var/tmp|/run|/var/lib)/btest' || true); do
      [ "$pid" = "$$" ] || kill -KILL "$pid" 2>/dev/null || true
    done
  done
}

sweep_network() {
  local name family table
  for name in $(ip netns list 2>/dev/null | awk '$1 ~ /^btest/ { print $1 }'); do ip netns delete "$name" || true; done
  # Bridges' ports first: guests' interfaces are named otherwise.
  for name in $(ip -o link show | sed -nE 's/^[0-9]+: ([^:@]+)[:@].* master btest.*/\1/p') \
    $(ip -o link show | sed -nE 's/^[0-9]+: (btest[^:@]*)[:@].*/\1/p'); do
    ip link delete "$name" 2>/dev/null || true
  done
  while read -r _ family table; do
    if [[ $table == btest* ]]; then nft delete table "$family" "$table" || true; fi
  done < <(nft list tables 2>/dev/null)
  return 0
}

# Deepest mount first; then the loop devices of files that are ours.
sweep_mounts() {
  local device file
  awk '$2 ~ "^/(tmp|var/tmp|run|var/lib)/btest" { print $2 }' /proc/self/mounts | sort -r |
    while read -r mount; do umount -l "$(printf '%b' "$mount")" 2>/dev/null || true; done
  losetup -l -n -O NAME,BACK-FILE | while read -r device file _; do
    if [[ $file =~ ^/(tmp|var/tmp|run|var/lib)/(btest|berth-btest) ]]; then losetup -d "$device" || true; fi
  done
  return 0
}

sweep_cgroups() {
  find /sys/fs/cgroup -depth -type d -name '*btest*' -exec rmdir {} + 2>/dev/null || true
}
