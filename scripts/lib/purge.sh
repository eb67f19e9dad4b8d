# shellcheck shell=bash
# Removes the remains of an instance by its configuration only. It works without the agent, after crashes and incomplete
# set-ups, and if nothing is left. Sourced after instance.sh.
# shellcheck disable=SC2154 # set by instance.sh

kernel_record=/var/lib/.berth-kernel-settings.json

purge_host() {
  if names_known; then purge_guests; fi
  purge_processes
  if names_known; then purge_network; fi
  purge_swap
  purge_storage
}

# False if the set-up was killed before it wrote a configuration. The set-up has then created nothing else.
names_known() { [ -n "$(agent_get network.interface_prefix)" ]; }

# Finds guests by their cgroups lxc.payload.NAME and lxc.monitor.NAME, where NAME is the prefix and the id. Only root on
# the host can create such cgroups. The payload is killed first, because its monitor then cleans up and ends.
purge_guests() {
  local name
  for name in $(guest_names); do
    kill_group "lxc.payload.$name"
    wait_until_empty 50 "lxc.monitor.$name" || kill_group "lxc.monitor.$name"
    remove_groups "lxc.payload.$name" "lxc.monitor.$name"
  done
  remove_groups "lxc.pivot.$(agent_get network.interface_prefix)"
  rm -rf "/run/lxc/lock$(agent_state_dir)/lxc"
}

# Prints the names of this instance's guests. Guests of other LXC users can have similar names.
guest_names() {
  local prefix name
  prefix=$(agent_get network.interface_prefix)
  find /sys/fs/cgroup -maxdepth 2 -type d -name "lxc.*.$prefix-*" 2>/dev/null |
    sed -nE "s#.*/lxc\.(payload|monitor)\.($prefix-[0-9]+)\$#\2#p" | sort -u |
    while read -r name; do
      if is_ours "$name"; then echo "$name"; fi
    done
}

is_ours() {
  local pid path
  path=$(agent_state_dir)/lxc
  [ ! -d "$path/$1" ] || return 0
  for pid in $(group_pids "lxc.monitor.$1"); do
    if [ "$(tr '\0' ' ' <"/proc/$pid/cmdline" | cut -d ' ' -f 3)" = "$path" ]; then return 0; fi
  done
  return 1
}

group_directories() { find /sys/fs/cgroup -maxdepth 2 -type d -name "$1" 2>/dev/null; }

group_pids() {
  group_directories "$1" | while read -r directory; do
    find "$directory" -name cgroup.procs -exec cat {} + 2>/dev/null || true
  done | sort -un
}

# Kills all processes of a cgroup. Repeats the kill, because the processes can fork at the same time.
kill_group() {
  local pid
  for _ in $(seq 100); do
    [ -n "$(group_pids "$1")" ] || return 0
    for pid in $(group_pids "$1"); do kill -KILL "$pid" 2>/dev/null || true; done
    sleep 0.05
  done
  note "processes in $1 cannot be killed"
}

# Waits until a cgroup has no processes. wait_until_empty TENTHS GROUP
wait_until_empty() {
  for _ in $(seq "$1"); do
    [ -n "$(group_pids "$2")" ] || return 0
    sleep 0.1
  done
  return 1
}

remove_groups() {
  local group directory
  for group in "$@"; do
    group_directories "$group" | while read -r directory; do
      find "$directory" -depth -type d -exec rmdir {} + 2>/dev/null || true
    done
  done
}

# Kills the remaining processes of the product. A process must run the product's program and also refer to a directory
# of the instance, in its arguments or as its working directory. An editor with a configuration file does not match.
purge_processes() {
  local pid
  for pid in $(instance_processes); do kill -KILL "$pid" 2>/dev/null || true; done
  for _ in $(seq 100); do
    [ -n "$(instance_processes)" ] || return 0
    sleep 0.1
  done
  note "these cannot be killed: $(instance_processes | tr '\n' ' ')"
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

# Removes addresses and the bridge first, then the interfaces of guests with their shaping devices (<prefix><id>u). The
# nft tables are last: a guest that still runs must lose its network before its firewall rules.
purge_network() {
  local table bridge prefix family name
  table=$(agent_get network.table)
  bridge=$(agent_get network.bridge)
  prefix=$(agent_get network.interface_prefix)
  purge_addresses "$table" "$bridge"
  ip link delete "$bridge" 2>/dev/null || true
  while read -r name; do ip link delete "$name" 2>/dev/null || true; done < <(
    ip -o link show 2>/dev/null | sed -nE "s/^[0-9]+: (${prefix}[0-9]+u?)[:@].*/\1/p"
  )
  while read -r _ family name; do
    if [ "$name" = "$table" ]; then nft delete table "$family" "$name"; fi
  done < <(nft list tables 2>/dev/null)
}

# Removes the public addresses, proxy entries and routes of guests. The agent marks them with a digest of its table's
# name (agent/network/addresses/mark.ts). This digest is the metric of addresses, and the routing protocol of entries
# and routes. purge_addresses TABLE BRIDGE
purge_addresses() {
  local digest metric protocol address device
  digest=$(printf '%s' "$1" | sha256sum)
  metric=$((0xbe000000 + 0x${digest:0:6}))
  protocol=$((193 + 0x${digest:6:2} % 60))
  while read -r device address; do ip address delete "$address/32" dev "$device" 2>/dev/null || true; done < <(
    ip -o -4 address show 2>/dev/null | sed -nE "s#^[0-9]+: +([^ ]+) +inet ([0-9.]+)(/32)? metric $metric .*#\1 \2#p"
  )
  while read -r address device; do ip -6 neighbour delete proxy "$address" dev "$device" 2>/dev/null || true; done < <(
    ip -N -6 neighbour show proxy 2>/dev/null | sed -nE "s/^([^ ]+) dev ([^ ]+) proxy .*proto $protocol( .*)?\$/\1 \2/p"
  )
  ip -6 route flush table all dev "$2" proto "$protocol" 2>/dev/null || true
}

# Deletes a pool completely if it is on Berth's loop file. In any other pool, deletes only Berth's subvolumes.
purge_storage() {
  local pool file device
  pool=$(pool_dir)
  file=$(loop_file)
  if pool_is_ours; then
    unmount_below "$pool"
  else
    remove_subvolumes "$pool"
    [ -z "$(agent_get storage.device)" ] || unmount_below "$pool"
  fi
  unmount_below "$(agent_state_dir)"
  unmount_below "$(agent_run_dir)"
  for device in $(losetup -n -O NAME -j "$file" 2>/dev/null); do losetup -d "$device"; done
  rm -f "$file" "$file.new"
  rmdir "$pool" 2>/dev/null || true
}

# Removes the agent's two swap files and their units. The files have the agent's label. Other swap of the host stays.
purge_swap() {
  local file path units unit
  units=$(agent_get swap.unit_dir /etc/systemd/system)
  file=$(agent_get swap.file)
  file=${file:-$(agent_state_dir)/swap/swapfile}
  for path in "$file" "$file.2"; do
    while read -r unit; do rm -f "$unit" "$units/swap.target.wants/$(basename "$unit")"; done < <(
      grep -lsxF "What=${path//%/%%}" "$units"/*.swap
    )
    rm -f "$path.new"
    [ "$(blkid -p -o value -s LABEL "$path" 2>/dev/null)" = berth-swap ] || continue
    swapoff "$path" 2>/dev/null || true
    rm -f "$path" || note "$path is in use as swap and cannot be removed"
  done
  rmdir "$(dirname "$file")" "$units/swap.target.wants" 2>/dev/null || true
}

pool_is_ours() { [ -e "$(loop_file)" ] && [ -n "$(losetup -n -O NAME -j "$(loop_file)")" ]; }

# Deletes the subvolumes in the pool's four folders, beginning with subvolumes that guests have created.
remove_subvolumes() {
  local path folder
  { btrfs subvolume list "$1" 2>/dev/null || true; } | sed -nE 's#.* path (.*/)?((images|guests|snapshots|trash)/.*)#\2#p' | sort -r |
    while read -r path; do
      btrfs property set -f "$1/$path" ro false 2>/dev/null || true
      btrfs -q subvolume delete "$1/$path" || true
    done
  rmdir "$1"/snapshots/* 2>/dev/null || true
  for folder in images guests snapshots trash; do rmdir "$1/$folder" 2>/dev/null || true; done
}

# Unmounts the deepest mounts first. If another process still uses a mount, the unmount is lazy.
unmount_below() {
  local at
  awk -v at="$1" '$2 == at || index($2, at "/") == 1 { print $2 }' /proc/self/mounts | sort -r | while read -r at; do
    umount "$(printf '%b' "$at")" 2>/dev/null || umount -l "$(printf '%b' "$at")"
  done
}

# Deletes the gateway's keys in an external Redis server. Sets `left` to a message if keys remain.
purge_store() {
  local url prefix output
  url=$(daemon_environment gateway && printenv BERTH_REDIS_URL || gateway_get redis.url)
  [ -n "$url" ] || return 0
  prefix=$(gateway_get redis.prefix)
  if [ "${instance:+$prefix}" = berth: ]; then output="the prefix belongs to the first instance"
  elif output=$(remove_keys 2>&1 </dev/null 9>&-); then note "$output" && return 0; fi
  left="the keys $prefix* are left in the Redis server at $(sed -E 's#^[a-z]+://(.*@)?##' <<<"$url")"
  note "$left: ${output:-the program does not exist}"
}

remove_keys() (
  main=$lib_dir/dist/gateway/main.js
  [ -e "$main" ] || main=dist/gateway/main.js
  program=$(command -v node) && [ -e "$main" ] || exit 1
  daemon_environment gateway
  exec timeout 120 "$program" "$main" purge --config "$(config_of gateway)"
)

# Deletes the files. This is the last step, because the earlier steps find their objects through the files.
purge_files() {
  local directory unit
  remove_made_in "$(agent_state_dir)" history identity journal.db journal.db-shm journal.db-wal lock.db \
    lock.db-journal lxc lxc-support secret.key
  remove_made_in "$(agent_run_dir)" lxc-stopped
  remove_made_in "$(gateway_state_dir)" admin-key.json pki redis secret
  remove_made_in "$(gateway_run_dir)" redis.sock admin.key
  for directory in "$var_dir" "$run_base" "$log_dir" "$lib_dir" "$lib_dir.old" "$lib_dir.new" "$etc_dir"; do
    rm -rf --one-file-system "$directory"
  done
  for unit in agent gateway guests; do rm -f "$(unit_file "$unit")" "$(unit_file "$unit").new"; done
}

# Deletes Berth's files in a directory that the operator has configured. Deletes the directory, too, if it becomes
# empty. Never deletes files in a mount that could not be unmounted. remove_made_in DIRECTORY NAME...
remove_made_in() {
  local directory=$1 name
  shift
  for name in "$@"; do rm -rf --one-file-system "${directory:?}/$name"; done
  rmdir "$directory" 2>/dev/null || true
}

# Checks the instance before anything is deleted. No missing value is guessed: a guess could belong to another instance.
check_instance() {
  local title=${instance:+"instance '$instance'"}
  if ! instance_is_known; then
    others_are_there || rm -f "$setup_lock"
    fail "there is no ${title:-Berth} on this machine." 'Nothing was removed.'
  fi
  read_configs values_for_down
  names_known || [ ! -e "$var_dir" ] ||
    fail "the names of the interfaces, tables and files that ${title:-Berth} created are unknown: $(config_of agent) is missing." \
    "Restore that file, or remove $var_dir yourself, then run this script again." 'Nothing was removed.'
  check_directories
}

# Checks all directories first, because a purge that stops halfway is worse than no purge.
check_directories() {
  local directory
  for directory in "$(agent_state_dir)" "$(agent_run_dir)" "$(gateway_state_dir)" "$(gateway_run_dir)" "$(pool_dir)"; do
    case $directory/ in
      *//* | */./* | */../*) ;;
      /*/*/) continue ;;
    esac
    fail "the configuration in $etc_dir names the directory $directory, which cannot be a directory of Berth: it must be an absolute path at least two levels deep." 'Nothing was removed.'
  done
}

# Restores kernel settings that agents changed (agent/daemon/kernel-record.ts), in reverse order, if they still have the
# agents' value. Network settings (`NAMESPACE:PATH`) are restored when no other agent uses their network namespace.
# Other settings are restored when no agent is left. After a reboot there is nothing to restore.
restore_kernel_settings() {
  local users user own
  [ -r "$kernel_record" ] || return 0
  own=$(stat -Lc %i /proc/self/ns/net)
  users=$(kernel_record_section users | while read -r user; do [ ! -d "${user% *}" ] || echo "${user##* }"; done)
  if grep -qF "$(cat /proc/sys/kernel/random/boot_id)" "$kernel_record"; then
    grep -qxE "0|$own" <<<"$users" || put_back "^$own:"
    [ -n "$users" ] || put_back '^[^0-9]'
  fi
  [ -n "$users" ] || rm -f "$kernel_record"
}

# Restores the recorded settings whose name matches. put_back PATTERN
put_back() {
  local key path before value
  while read -r key before; do
    path=${key#*:}
    value=$(kernel_record_section set | awk -v key="$key" '$1 == key { print $2 }')
    [[ $path != *..* && $(cat "/proc/sys/$path" 2>/dev/null) == "$value" ]] || continue
    [ "$before" = "$value" ] || echo "$before" >"/proc/sys/$path" || note "$path could not be restored to $before"
  done < <(kernel_record_section before | grep -E "$1" | tac)
  # Marks the settings as restored, so that they are not restored a second time if the record stays.
  sed -i -E "s/^(    \"${1#^}[^\"]*\": )-?[0-9]+/\1-1/" "$kernel_record"
}

# Prints a section of the record, a name and its number per line. kernel_record_section NAME
kernel_record_section() {
  awk -F '"' -v want="$1" '
    /^  "/ { section = $2 }
    section == want && /^    "/ { number = $3; gsub(/[^0-9-]/, "", number); print number == "" ? $2 : $2 " " number }
  ' "$kernel_record"
}

others_are_there() {
  local other
  for other in /etc/berth /etc/berth-*; do [ ! -d "$other" ] || return 0; done
  return 1
}

# Removes everything that the instances share, if no instance is left.
purge_shared() {
  restore_kernel_settings
  if others_are_there; then return 0; fi
  remove_lxcfs
  remove_stale_policy
  rm -f "$policy_lock" "$kernel_record"
  if [ -e /var/lib/.berth-made-user ]; then
    userdel "$berth_user" 2>/dev/null || true
    rm -f /var/lib/.berth-made-user
  fi
  rm -f "$setup_lock" # removed last, because another script may run from here on
}
