# shellcheck shell=bash
# Functions for all scripts: output, failure, progress, Node, Debian and npm packages. Sourced, not run.

if [ -t 1 ]; then bold=$'\e[1m' dim=$'\e[2m' red=$'\e[31m' plain=$'\e[0m'; else bold='' dim='' red='' plain=''; fi

say() { printf '%s\n' "${bold}==>${plain} $*"; }
note() { printf '    %s\n' "$*"; }
fail() {
  printf '%s\n' "${red}error:${plain} $1" >&2
  shift
  [ $# -eq 0 ] || printf '       %s\n' "$@" >&2
  exit 1
}

# Replaces a file atomically. After a power failure, the file has either its complete old or its complete new content.
# replace_file NEW FILE
replace_file() {
  sync "$1"
  mv "$1" "$2"
  sync "$(dirname "$2")"
}

require_root() { [ "$(id -u)" -eq 0 ] || fail "run as root: sudo $0"; }

# Only one scripts/up or scripts/down runs at a time, because instances share checkouts, instance numbers, lxcfs, the
# system user and kernel settings. The lock is held by descriptor 9 until the script ends or closes it.
setup_lock=/run/lock/berth-setup.lock
take_setup_lock() {
  exec 9>"$setup_lock"
  if ! flock -n 9; then
    say 'Waiting: another scripts/up or scripts/down is running'
    flock 9
  fi
  # The purge of the last instance removes the lock file. A lock on a removed file would protect nothing.
  [ "$setup_lock" -ef /proc/self/fd/9 ] || take_setup_lock
}

# Runs a command and logs its output. A long run shows the last line of the log, a failure shows the end of the log.
# run_logged LABEL LOG COMMAND...
run_logged() {
  local label=$1 log=$2 pid started=$SECONDS shown=0
  shift 2
  "$@" >>"$log" 2>&1 </dev/null &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    sleep 0.2
    show_progress "$label" "$log" $((SECONDS - started))
  done
  [ -t 1 ] && printf '\r\e[K'
  wait "$pid" && return 0
  printf '%s\n' "${red}error:${plain} $label failed; the end of $log:" >&2
  tail -n 30 "$log" | sed 's/^/    /' >&2
  return 1
}

# Rewrites one line on a terminal; elsewhere, prints a line every ten seconds. Uses the caller's variable `shown`.
show_progress() {
  local last
  if [ -t 1 ]; then
    last=$(tail -n 1 "$2" 2>/dev/null | sed -E 's|\x1b\[[0-9;?]*[A-Za-z]||g; s|\r||g' | cut -c 1-70) || true
    printf '\r\e[K    %s%4ds  %s%s' "$1 " "$3" "$dim$last" "$plain"
  elif [ $(($3 / 10)) -gt "${shown:-0}" ]; then
    shown=$(($3 / 10))
    last=$(tail -n 1 "$2" 2>/dev/null | sed -E 's|\x1b\[[0-9;?]*[A-Za-z]||g; s|\r||g' | cut -c 1-90) || true
    note "$1: $3 s, $last"
  fi
}

minimum_node=20.19

# Checks that a suitable Node is installed, or reports what is missing.
require_node() {
  local version
  if ! command -v node >/dev/null || ! command -v npm >/dev/null; then node_missing 'Node.js is not installed.'; fi
  version=$(node -p process.versions.node)
  version_at_least "$version" "$minimum_node" || node_missing "Node.js $version is too old."
}

version_at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

node_missing() {
  fail "$1 Berth needs Node.js $minimum_node or newer (20, 22, 24 …) with npm." \
    "Debian 12's own package is too old. Install a current release, for example:" \
    "  apt-get install -y curl xz-utils" \
    "  curl -fsSL https://nodejs.org/dist/v22.12.0/node-v22.12.0-linux-x64.tar.xz | tar -xJ -C /usr/local --strip-components=1" \
    "then run this script again."
}

# Prints those of the packages that are installed, one per line.
installed_packages() { dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null | sed -n 's/ installed$//p' || true; }

# Installs the Debian packages that are missing, without starting their services. Sets `installed_now`.
# ensure_debian_packages LOG PACKAGE...
ensure_debian_packages() {
  local log=$1 package installed
  shift
  remove_stale_policy
  installed=$(installed_packages "$@")
  installed_now=()
  for package in "$@"; do [[ $'\n'$installed$'\n' == *$'\n'"$package"$'\n'* ]] || installed_now+=("$package"); done
  [ ${#installed_now[@]} -gt 0 ] || return 0
  say "Installing ${#installed_now[@]} Debian packages: ${installed_now[*]}"
  install_packages "$log" || exit 1
  keep_services_off
}

# Runs in a subshell, so that its traps do not affect the calling script. After an interruption it waits for apt,
# because killing apt would leave packages half installed.
install_packages() (
  exec 8>"$policy_lock"
  flock 8
  trap allow_service_starts EXIT
  trap 'note "interrupted: apt-get ends first" && wait && exit 130' INT TERM HUP
  forbid_service_starts
  run_logged 'apt-get update' "$1" update_package_lists "$1" || exit 1
  run_logged 'apt-get install' "$1" env DEBIAN_FRONTEND=noninteractive NEEDRESTART_MODE=l \
    apt-get -q -y --no-install-recommends -o DPkg::Lock::Timeout=600 -o Dpkg::Options::=--force-confold \
    install "${installed_now[@]}"
)

# `apt-get update` ignores the timeout if another apt process holds the lock of the package lists.
update_package_lists() {
  local tries=0
  until LC_ALL=C apt-get -q -o DPkg::Lock::Timeout=600 update; do
    tail -n 5 "$1" | grep -q 'Could not get lock' && [ $((tries += 1)) -lt 120 ] || return 1
    echo 'waiting for another apt'
    sleep 5
  done
}

# invoke-rc.d calls /usr/sbin/policy-rc.d before a package starts its service. The exit status 101 forbids the start. A
# policy of the administrator stays unchanged.
policy_file=/usr/sbin/policy-rc.d
policy_lock=/run/lock/berth-packages.lock
policy_mark='# written by berth while it installs packages'
forbid_service_starts() {
  [ -e "$policy_file" ] && return 0
  printf '#!/bin/sh\n%s\nexit 101\n' "$policy_mark" >"$policy_file"
  chmod 755 "$policy_file"
}
allow_service_starts() { ! grep -qsF "$policy_mark" "$policy_file" || rm -f "$policy_file"; }

# Removes a policy file that a killed run left. Does nothing while another run is installing packages.
remove_stale_policy() {
  grep -qsF "$policy_mark" "$policy_file" || return 0
  (flock -n 8 && allow_service_starts || true) 8>"$policy_lock"
}

# Disables services that this run has installed but Berth does not use. They are Redis, the bridge of lxc, sshd, and a
# service that waits for this bridge and so delays every boot by half a minute.
keep_services_off() {
  local package service
  for package in "${installed_now[@]}"; do
    case $package in
      redis-server) set -- redis-server ;;
      lxc) set -- lxc lxc-net ;;
      openssh-server) set -- ssh ;;
      *) continue ;;
    esac
    for service in "$@"; do
      if [ -d /run/systemd/system ]; then
        systemctl -q disable --now "$service" 2>/dev/null || true
      else
        update-rc.d "$service" disable >/dev/null 2>&1 || true
      fi
    done
  done
}

# Installs the npm packages unless they already match the lock file. ensure_npm_packages LOG
ensure_npm_packages() {
  local mark=node_modules/.berth-installed
  [ "$(cat "$mark" 2>/dev/null)" = "$(npm_packages_wanted)" ] && return 0
  say 'Installing npm packages'
  # `npm ci` would not work: the lock file lists the binaries of only one platform.
  run_logged 'npm install' "$1" npm install --no-progress --loglevel=http || exit 1
  npm_packages_wanted >"$mark" # written after npm, which may have rewritten the lock file
}

npm_packages_wanted() {
  echo "$(cat package.json package-lock.json | sha256sum | cut -c 1-64) $(node -p 'process.version + process.arch')"
}
