# shellcheck shell=bash
# lxcfs provides each guest with its own /proc/meminfo, cpuinfo, loadavg and so on. -l adds load averages, --enable-cfs
# supports fractions of a CPU. All guests of the host share one lxcfs, including guests of other programs. Sourced.
# shellcheck disable=SC2154 # set by instance.sh

lxcfs_mount=/var/lib/lxcfs
lxcfs_flags=(-l --enable-cfs)
lxcfs_pid_file=/run/berth-lxcfs.pid
lxcfs_drop_in=/etc/systemd/system/lxcfs.service.d/berth.conf

lxcfs_mounted() { awk -v at="$lxcfs_mount" '$2 == at && $3 == "fuse.lxcfs" { found = 1 } END { exit !found }' /proc/self/mounts; }

# Starts lxcfs, but never restarts a running one, because guests have its files open.
ensure_lxcfs() {
  if runs_systemd; then
    ensure_lxcfs_unit
  elif ! lxcfs_mounted; then
    start_lxcfs
  fi
}

ensure_lxcfs_unit() {
  if [ ! -e "$lxcfs_drop_in" ]; then
    install -d "${lxcfs_drop_in%/*}"
    printf '[Service]\nExecStart=\nExecStart=/usr/bin/lxcfs %s %s\n' "${lxcfs_flags[*]}" "$lxcfs_mount" >"$lxcfs_drop_in"
    systemctl daemon-reload
    if guests_of_others; then
      note 'lxcfs serves running guests: load averages take effect at its next restart'
    else
      systemctl -q restart lxcfs || true
    fi
  fi
  systemctl -q enable --now lxcfs 2>/dev/null || note 'lxcfs cannot be started: guests see the memory and processors of the host'
}

guests_of_others() { pgrep -f '^\[lxc monitor\]' >/dev/null; }

start_lxcfs() {
  mkdir -p "$lxcfs_mount"
  umount -l "$lxcfs_mount" 2>/dev/null || true # an lxcfs that has crashed leaves its mount behind
  # lxcfs must not inherit the lock (descriptor 9), or a pipe, whose reader would wait for lxcfs to end.
  (
    exec 9>&- </dev/null >>"$log_dir/lxcfs.log" 2>&1
    setsid lxcfs "${lxcfs_flags[@]}" -p "$lxcfs_pid_file" "$lxcfs_mount" &
  )
  for _ in $(seq 50); do
    lxcfs_mounted && return 0
    sleep 0.1
  done
  note "lxcfs cannot be started ($log_dir/lxcfs.log): guests see the memory and processors of the host"
}

# Removes lxcfs only with the last instance, and only if Berth has started it.
remove_lxcfs() {
  if [ -e "$lxcfs_drop_in" ]; then
    rm -f "$lxcfs_drop_in"
    rmdir "${lxcfs_drop_in%/*}" 2>/dev/null || true
    if runs_systemd; then systemctl daemon-reload; fi
  fi
  [ -e "$lxcfs_pid_file" ] || return 0
  if [ "$(cat "/proc/$(cat "$lxcfs_pid_file")/comm" 2>/dev/null)" = lxcfs ]; then
    stop_process "$(cat "$lxcfs_pid_file")" 5
  fi
  umount -l "$lxcfs_mount" 2>/dev/null || true
  rm -f "$lxcfs_pid_file"
}
