# shellcheck shell=bash
# Installs, starts and stops the two daemons: as systemd units, or as background processes on a machine without systemd.
# Sourced after common.sh and instance.sh.
# shellcheck disable=SC2154 # set by those two

# --- the code: a separate copy, because a checkout can change, be deleted, or be in /root

# Prints a digest of a daemon's code, packages, Node, unit and configuration. daemon_digest agent|gateway
daemon_digest() {
  {
    (cd "$lib_dir" && find "dist/$1" package.json -type f ! -name '*.map' -print0 |
      sort -z | xargs -0 sha256sum)
    cat "$lib_dir/.packages" "$(config_of "$1")" "$(environment_of "$1")" 2>/dev/null || true # optional environment
    ! runs_systemd || cat "$(unit_file "$1")"
  } | sha256sum | cut -c 1-64
}

# Copies the built product to lib_dir if it has changed. The old copy is deleted when no process runs from it any more.
install_code() {
  local packages
  packages=$(sha256sum package-lock.json | cut -c 1-64)-$(node -p 'process.version + process.arch')
  if [ "$packages" != "$(cat "$lib_dir/.packages" 2>/dev/null)" ]; then
    say "Copying the program to $lib_dir"
    rm -rf "$lib_dir.new"
    install -d -m 755 "$lib_dir.new"
    copy_packages "$lib_dir.new"
    copy_build "$lib_dir.new"
    echo "$packages" >"$lib_dir.new/.packages"
    sync -f "$lib_dir.new"
    if [ -d "$lib_dir" ]; then rm -rf "$lib_dir.old" && mv "$lib_dir" "$lib_dir.old"; fi
    mv "$lib_dir.new" "$lib_dir"
  elif ! diff -rq dist "$lib_dir/dist" >/dev/null 2>&1 || ! cmp -s package.json "$lib_dir/package.json"; then
    say "Copying the new build to $lib_dir"
    copy_build "$lib_dir"
  fi
}

copy_build() {
  rm -rf "$1/dist.new"
  cp -R dist "$1/dist.new"
  cp package.json README.md "$1/"
  chmod -R a+rX,go-w "$1/dist.new" "$1/package.json"
  sync -f "$1/dist.new"
  if [ -d "$1/dist" ]; then rm -rf "$1/dist.old" && mv "$1/dist" "$1/dist.old"; fi
  mv "$1/dist.new" "$1/dist"
  rm -rf "$1/dist.old"
}

# Copies the packages that the product needs at run time.
copy_packages() {
  local root=$PWD list
  list=$(npm ls --omit=dev --all --parseable 2>/dev/null | tail -n +2 | sed "s#^$root/##" | sort -u) || true
  [ -n "$list" ] || fail 'npm ls lists no packages, so node_modules is not complete: run npm install'
  # Nested packages are copied with their parents. The sources of native parts are not needed after the build.
  echo "$list" | grep -vE '^node_modules/(@[^/]+/)?[^/]+/node_modules/' |
    tar -c --exclude='better-sqlite3/deps' --exclude='better-sqlite3/src' --exclude='obj.target' --exclude='obj' \
      --exclude='node-pty/prebuilds' --exclude='node-pty/third_party' --exclude='node-pty/deps' --exclude='node-pty/src' \
      -f - -T - | tar -x --no-same-owner -C "$1" -f -
  chmod -R a+rX,go-w "$1/node_modules"
}

# Chooses a Node that both daemons can run. Copies a Node in /root or /home, because the gateway does not run as root.
install_node() {
  local program
  program=$(readlink -f "$(command -v node)")
  case $program in
    /root/* | /home/* | /tmp/*)
      install -d -m 755 "$lib_dir/bin"
      cmp -s "$program" "$lib_dir/bin/node" || install -m 755 "$program" "$lib_dir/bin/node"
      node_program=$lib_dir/bin/node
      ;;
    *) node_program=$program ;;
  esac
}

# --- user and directories

ensure_user() {
  getent passwd "$berth_user" >/dev/null && return 0
  useradd --system --user-group --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin \
    --comment 'Berth gateway' "$berth_user"
  touch /var/lib/.berth-made-user
}

ensure_directories() {
  install -d -m 755 "$var_dir" "$run_base"
  install -d -m 750 "$log_dir"
  # Root users of guests pass through this directory to their own files (mode x). Secret files have private modes.
  install -d -m 711 "$(agent_state_dir)"
  install -d -m 700 "$(agent_run_dir)"
  install -d -m 700 -o "$berth_user" -g "$berth_user" "$(gateway_state_dir)" "$(gateway_run_dir)"
}

# --- running

# agent_command SUBCOMMAND ARGS...: runs the program of the agent with the instance's configuration
agent_command() { "$node_program" "$lib_dir/dist/agent/main.js" "$@" --config "$(config_of agent)"; }
# Keeps only the capability to listen on ports below 1024, like the systemd unit.
as_berth=(setpriv --reuid "$berth_user" --regid "$berth_user" --clear-groups --inh-caps=-all,+net_bind_service
  --ambient-caps=-all,+net_bind_service --bounding-set=-all,+net_bind_service --no-new-privs --)

# Prints the pid of a running daemon, or nothing. A pid file contains the pid and the start time. Without the start
# time, a later process with this pid could be mistaken for the daemon.
daemon_pid() {
  local pid started
  if runs_systemd; then
    pid=$(systemctl show -p MainPID --value "$(unit_of "$1")" 2>/dev/null || true)
    [ "${pid:-0}" = 0 ] || echo "$pid"
    return 0
  fi
  read -r pid started 2>/dev/null <"$(pid_file_of "$1")" || return 0
  [ "$(start_time_of "$pid")" != "$started" ] || echo "$pid"
}

# Prints field 22 of /proc/PID/stat, the start time; nothing for an ended process (Z).
start_time_of() { sed -n 's/.*) \([^Z]\)/\1/p' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20; }

environment_of() { echo "$etc_dir/$1.env"; }

# Sets the environment of the systemd unit, without variables of the caller. Call it in a subshell. Values are not
# passed in arguments, because ps shows these.
daemon_environment() {
  local file name value
  file=$(environment_of "$1")
  while read -r name; do export -n "${name?}"; done < <(compgen -e)
  export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root NODE_ENV=production
  # These are the values in systemd/berth-agent.service.
  if [ "$1" = gateway ]; then HOME=/nonexistent; else export NODE_OPTIONS=--max-semi-space-size=1 MALLOC_ARENA_MAX=1; fi
  [ -r "$file" ] || return 0
  while IFS='=' read -r name value; do
    [[ $name =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]] || continue
    [[ $value =~ ^\"(.*)\"$ || $value =~ ^\'(.*)\'$ ]] && value=${BASH_REMATCH[1]}
    export "$name=$value"
  done <"$file"
}

# Stores BERTH_REDIS_URL of this script's environment for all later starts of the gateway.
keep_redis_url() {
  local file
  [ -n "${BERTH_REDIS_URL:-}" ] || return 0
  [[ $BERTH_REDIS_URL != *[$'\n\t "\'\\']* ]] || fail 'BERTH_REDIS_URL: blanks, quotes and backslashes must be percent-encoded'
  file=$(environment_of gateway)
  grep -qsxF "BERTH_REDIS_URL=$BERTH_REDIS_URL" "$file" && return 0
  (
    umask 077
    { grep -sv '^BERTH_REDIS_URL=' "$file" || true; echo "BERTH_REDIS_URL=$BERTH_REDIS_URL"; } >"$file.new"
  )
  replace_file "$file.new" "$file"
  note "wrote $file: BERTH_REDIS_URL"
}

start_daemon() {
  if runs_systemd; then
    systemctl -q enable "$(unit_of "$1")"
    systemctl restart "$(unit_of "$1")"
  else
    start_in_background "$1"
  fi
  daemon_digest "$1" >"$(started_file_of "$1")"
}

start_in_background() {
  local log as=()
  log=$(log_of "$1")
  rotate_log "$log"
  [ "$1" != gateway ] || as=("${as_berth[@]}")
  # The pid file exists before the lock is released. If this script is killed, the next one finds the daemon.
  read -r < <(
    write_pid_file "$1"
    echo 'written'
    cd /
    umask 077
    ulimit -n 65536 2>/dev/null || ulimit -n "$(ulimit -Hn)"
    daemon_environment "$1"
    close_inherited
    exec "${as[@]}" setsid "$node_program" "$lib_dir/dist/$1/main.js" serve --config "$(config_of "$1")" \
      9>&- </dev/null >>"$log" 2>&1
  ) || fail "the $1 cannot be started"
}

# Closes descriptors inherited from this script's caller. Keeps 9 (the lock) and 255 (bash's own, closed by exec).
close_inherited() {
  local fd
  for fd in "/proc/$BASHPID/fd/"*; do
    fd=${fd##*/}
    case $fd in 0 | 1 | 2 | 9 | 255) ;; *) eval "exec $fd>&-" ;; esac
  done
}

# Writes the pid of the calling shell. exec keeps this pid for the daemon.
write_pid_file() {
  local pid=$BASHPID # a subshell in $( ) would have another pid
  echo "$pid $(start_time_of "$pid")" >"$(pid_file_of "$1").new"
  mv "$(pid_file_of "$1").new" "$(pid_file_of "$1")"
}

# Rotates the log: at most three files, of about 10 MB each.
rotate_log() {
  local size
  size=$(stat -c %s "$1" 2>/dev/null || echo 0)
  if [ "$size" -gt 10000000 ]; then
    [ ! -e "$1.1" ] || mv "$1.1" "$1.2"
    mv "$1" "$1.1"
  fi
  touch "$1"
  chmod 640 "$1"
}

stop_daemon() {
  local pid
  if runs_systemd; then
    systemctl -q disable --now "$(unit_of "$1")" 2>/dev/null || true
  else
    pid=$(daemon_pid "$1")
    [ -z "$pid" ] || stop_process "$pid" 30
    rm -f "$(pid_file_of "$1")"
    if [ "$1" = gateway ]; then stop_stray_redis; fi
  fi
  rm -f "$(started_file_of "$1")"
}

# Stops the private Redis that a killed gateway left. Its working directory identifies it.
stop_stray_redis() {
  local pid
  for pid in $(pgrep -x redis-server || true); do
    if [ "$(readlink "/proc/$pid/cwd")" = "$(readlink -f "$(gateway_state_dir)")/redis" ]; then stop_process "$pid" 20; fi
  done
}

# Sends SIGTERM, then SIGKILL if the process still exists after SECONDS. stop_process PID SECONDS
stop_process() {
  local started tries=0
  started=$(start_time_of "$1")
  kill -TERM "$1" 2>/dev/null || return 0
  while [ "$(start_time_of "$1")" = "$started" ]; do
    [ $((tries += 1)) -le $(($2 * 10)) ] || { kill -KILL "$1" 2>/dev/null || true; }
    [ "$tries" -le $(($2 * 10 + 50)) ] || fail "process $1 cannot be killed"
    sleep 0.1
  done
}

# Starts a daemon that does not run. Restarts a daemon whose code or configuration has changed.
# Sets `daemon_change` to started, restarted or none.
ensure_daemon() {
  local program=$1
  daemon_change=none
  if [ -z "$(daemon_pid "$program")" ]; then
    daemon_change=started
    check_port_free "$program"
  elif [ "$(cat "$(started_file_of "$program")" 2>/dev/null)" != "$(daemon_digest "$program")" ]; then
    daemon_change=restarted
    say "Restarting the $program: its code or configuration changed"
    runs_systemd || stop_daemon "$program"
  fi
  [ "$daemon_change" = none ] || start_daemon "$program"
}

# Fails if another program uses the port. Without this check, only the daemon's own log would show the reason.
check_port_free() {
  local listen owner
  listen=$(configured_value "$1" listen)
  owner=$(ss -Hltnp "sport = :${listen##*:}" 2>/dev/null | sed -nE 's/.*users:\(\("([^"]+)",pid=([0-9]+).*/\1 (pid \2)/p' | head -n 1)
  [ -z "$owner" ] || fail "port ${listen##*:} is in use by $owner." "Stop it, or set \`listen\` in $(config_of "$1")."
}

# Shows the end of a daemon's log, to explain why it does not run.
fail_with_log() {
  local lines
  if runs_systemd; then lines=$(journalctl -n 20 --no-pager -o cat -u "$(unit_of "$1")" || true)
  else lines=$(tail -n 20 "$(log_of "$1")"); fi
  printf '%s\n' "${red}error:${plain} $2; the end of its log:" >&2
  printf '%s\n' "$lines" | cut -c 1-400 | sed 's/^/    /' >&2
  exit 1
}

# --- systemd

# Adds the configured directories to the gateway's unit, which can otherwise write only to the default directories.
# allow_own_directories UNIT-FILE
allow_own_directories() {
  local directory
  for directory in "$(gateway_state_dir)" "$(gateway_run_dir)"; do
    case $directory in
      "/var/lib/berth$suffix/gateway" | "/run/berth$suffix/gateway") continue ;;
      # systemd must create this directory, because a boot empties /run.
      /run/*) sed -i "s#^RuntimeDirectory=.*#& ${directory#/run/}#" "$1" ;;
      *) sed -i "s#^ProtectSystem=.*#&\nReadWritePaths=$directory#" "$1" ;;
    esac
  done
}

install_unit() {
  local file
  file=$(unit_file "$1")
  sed -e "s#/usr/bin/node #$node_program #; s#/opt/berth/#$lib_dir/#; s#/etc/berth/#$etc_dir/#" \
    -e "s#=berth/$1\$#=berth$suffix/$1#; s#=berth-agent.service\$#=$(unit_of agent)#" \
    -e "s#=berth-guests.service\$#=$(unit_of guests)#" \
    -e "s#^RequiresMountsFor=.*#RequiresMountsFor=$(agent_state_dir) $(pool_dir)#" "systemd/berth-$1.service" >"$file.new"
  [ "$1" != gateway ] || allow_own_directories "$file.new"
  if cmp -s "$file.new" "$file"; then rm "$file.new"; else
    replace_file "$file.new" "$file"
    systemctl daemon-reload
  fi
}

# This unit is active even while no daemon runs, because guests outlive the daemons. It shuts guests down with the host.
install_guests_unit() {
  install_unit guests
  systemctl -q enable --now "$(unit_of guests)"
}

# Disables the unit that shuts guests down. Guests are not affected.
stop_guests_unit() { systemctl -q disable --now "$(unit_of guests)" 2>/dev/null || true; }
