# shellcheck shell=bash
# Removing what an instance left on the host, from its configuration alone: works when the agent cannot run, after
# crashes and half-finished set-ups, and on an empty host. Sourced after instance.sh.
# shellcheck disable=SC2154 # set by instance.sh

purge_host() {
  purge_guests
  purge_processes
  purge_network
  purge_storage
}

# Guests by their monitors, which carry the lxc path and the guest's name in their title.
purge_guests() {
  local path pid name
  path=$(agent_state_dir)
  while read -r pid name; do
    lxc-stop -k -P "$(monitor_path "$pid")" -n "$name" 2>/dev/null || true
  done < <(guest_monitors "$path")
  wait_until_none guest_monitors "$path" || kill_each < <(guest_monitors "$path")
  remove_guest_cgroups "$path"
}

# `PID NAME` of each monitor whose lxc path is below a directory: "[lxc monitor] PATH NAME".
guest_monitors() {
  local cmdline pid
  for pid in $(pgrep -f '^\[lxc monitor\] ' || true); do
    cmdline=$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null) || continue
    [[ $cmdline =~ ^\[lxc\ monitor\]\ ([^\ ]+)\ ([^\ ]+) && ${BASH_REMATCH[1]}/ == "$1"/* ]] &&
      echo "$pid ${BASH_REMATCH[2]}"
  done
  return 0
}

monitor_path() { tr '\0' ' ' <"/proc/$1/cmdline" | cut -d ' ' -f 3; }

kill_each() { while read -r pid _; do kill -KILL "$pid" 2>/dev/null || true; done; }

# wait_until_none COMMAND... : up to ten seconds for it to print nothing
wait_until_none() {
  for _ in $(seq 100); do
    [ -n "$("$@")" ] || return 0
    sleep 0.1
  done
  return 1
}

# Guests' cgroups are named by their uuid; a killed monitor leaves them, empty.
remove_guest_cgroups() {
  local directory uuid
  while read -r directory; do
    uuid=${directory##*/}
    [[ $uuid =~ ^[0-9a-f]{8}-[0-9a-f-]{27}$ ]] || continue
    find /sys/fs/cgroup -depth -type d -path "*$uuid*" -exec rmdir {} + 2>/dev/null || true
  done < <(find "$1" -maxdepth 3 -type d 2>/dev/null)
}

# Programs of the product that still run: by program and by a directory of the instance in their arguments or as
# their working directory, so that an editor with a configuration file open is none.
purge_processes() {
  local pid
  for pid in $(instance_processes); do kill -KILL "$pid" 2>/dev/null || true; done
  wait_until_none instance_processes || true
}

instance_processes() {
  local pid program
  for pid in $(pgrep -x 'node|redis-server|MainThread|nft|ip|lxc-.*|mmdebstrap|.*berth.*' || true); do
    [ "$pid" != "$$" ] || continue
    program=$({ tr '\0' ' ' <"/proc/$pid/cmdline"; readlink "/proc/$pid/cwd"; } 2>/dev/null) || continue
    if grep -qE "(^| |=|:)($var_dir|$run_base|$lib_dir|$(agent_state_dir)|$(gateway_state_dir))(/|\$)|$etc_dir/(agent|gateway).yaml" <<<"$program"; then
      echo "$pid"
    fi
  done
}

# nft tables of every family, guests' interfaces, the bridge.
purge_network() {
  local table bridge prefix family name
  table=$(agent_get network.table berth)
  bridge=$(agent_get network.bridge berth0)
  prefix=$(agent_get network.interface_prefix bt)
  while read -r _ family name; do
    if [ "$name" = "$table" ]; then nft delete table "$family" "$name"; fi
  done < <(nft list tables 2>/dev/null)
  while read -r name; do ip link delete "$name" 2>/dev/null || true; done < <(
    ip -o link show 2>/dev/null | sed -nE "s/^[0-9]+: ($prefix[0-9]+)[:@].*/\1/p"
  )
  ip link delete "$bridge" 2>/dev/null || true
}

# A pool on a device or in a file system of yours loses what Berth made in it; one on our loop file goes whole.
purge_storage() {
  local pool file device
  pool=$(pool_dir)
  file=$(loop_file)
  if pool_is_ours; then
    unmount_below "$pool"
  else
    remove_subvolumes "$pool"
    [ -z "$(agent_get storage.device '')" ] || unmount_below "$pool"
  fi
  unmount_below "$(agent_state_dir)"
  unmount_below "$(agent_run_dir)"
  for device in $(losetup -n -O NAME -j "$file" 2>/dev/null); do losetup -d "$device"; done
  rm -f "$file" "$file.new"
  rmdir "$pool" 2>/dev/null || true
}

pool_is_ours() { [ -e "$(loop_file)" ] && [ -n "$(losetup -n -O NAME -j "$(loop_file)")" ]; }

# Subvolumes in the pool's three folders, those that guests made inside theirs first.
remove_subvolumes() {
  local path folder
  { btrfs subvolume list "$1" 2>/dev/null || true; } | sed -nE 's#.* path (.*/)?((images|guests|trash)/.*)#\2#p' | sort -r |
    while read -r path; do
      btrfs property set -f "$1/$path" ro false 2>/dev/null || true
      btrfs -q subvolume delete "$1/$path" || true
    done
  for folder in images guests trash; do rmdir "$1/$folder" 2>/dev/null || true; done
}

# Deepest first; lazily, for what a process outside still holds.
unmount_below() {
  local at
  awk -v at="$1" '$2 == at || index($2, at "/") == 1 { print $2 }' /proc/self/mounts | sort -r | while read -r at; do
    umount "$(printf '%b' "$at")" 2>/dev/null || umount -l "$(printf '%b' "$at")"
  done
}

# Files, last: what was removed before is found through them.
purge_files() {
  local directory
  for directory in "$(agent_state_dir)" "$(agent_run_dir)" "$(gateway_state_dir)" "$(gateway_run_dir)" \
    "$var_dir" "$run_base" "$log_dir" "$lib_dir" "$lib_dir.old" "$lib_dir.new" "$etc_dir"; do
    remove_tree "$directory"
  done
  rm -f "$(unit_file agent)" "$(unit_file gateway)" "$(unit_file agent).new" "$(unit_file gateway).new"
}

# Never a directory near the root, never across a mount that could not be undone.
remove_tree() {
  case $1 in
    /*/*/* | /etc/berth* | /run/berth* | /opt/berth*) rm -rf --one-file-system "$1" ;;
    *) fail "$1 is not removed: it is too near the root" ;;
  esac
}

# What all instances share goes with the last.
purge_shared() {
  local other
  for other in /etc/berth /etc/berth-*; do [ ! -d "$other" ] || return 0; done
  remove_lxcfs
  if [ -e /var/lib/.berth-made-user ]; then
    userdel "$berth_user" 2>/dev/null || true
    rm -f /var/lib/.berth-made-user
  fi
}
