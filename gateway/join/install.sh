#!/bin/sh
# Installs the Berth agent on this machine and joins it to the gateway that created the token:
#   curl … https://GATEWAY/install | sh -s -- TOKEN
# Running it again repairs the installation, or upgrades it to the version of the gateway.
# `sh -s -- --uninstall` removes the agent together with all its guests.
# The agent itself runs the copy in its package to install another version: install.sh --upgrade|--rollback DIRECTORY
set -eu

gateway='@GATEWAY@'
version='@VERSION@'
authority='@AUTHORITY@'

packages=/var/lib/berth/packages
# Packages that are being fetched, and those of the version before the installed one.
next=$packages/next
previous=$packages/previous
keyring=/usr/share/keyrings/berth.gpg
sources=/etc/apt/sources.list.d/berth.sources
apt_lists=/var/lib/apt/lists
config=/etc/berth/agent.yaml
port=7443
least_free_mb=3000
least_free_mb_of_upgrade=500
# How often the gateway may answer that it does not reach the new version, and how long that may take in all.
most_answers=60
most_seconds=900
supported='Debian 12 or newer, or Ubuntu 24.04 or newer'
# needrestart would restart services of this machine that have nothing to do with Berth.
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 NEEDRESTART_SUSPEND=1

main() {
  token=''
  case ${1:-} in
    --uninstall) uninstall ;;
    --upgrade | --rollback) upgrade "$1" "${2:?the directory of the order is missing}" ;;
    berth_jt_*) token=$1 && install_agent ;;
    *) fail 'the join token is missing: copy the complete command from the panel or from POST /hosts' ;;
  esac
}

install_agent() {
  [ "$(id -u)" -eq 0 ] || fail 'run the command as root, for example after "sudo -i"'
  begin_work
  answer=$(report checking) || fail "$gateway refuses the token: $(value message)"
  check_machine
  install_packages
  join_gateway
  wait_until_online
}

begin_work() {
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  lock
  printf '%s\n' "$authority" >"$work/authority.pem"
  # The token is passed to curl in a file, because other users can read the arguments of curl.
  (umask 077 && printf 'Authorization: Bearer %s\n' "$token" >"$work/authorization")
  check_authority
}

# Installations, upgrades and the removal wait for each other.
lock() {
  exec 9>/run/lock/berth-install
  flock -w 600 9 || fail 'another installation or upgrade of the agent is still in progress'
}

say() { printf '==> %s\n' "$*"; }

# Prints the reason, and reports it to the gateway, which shows the reason in the panel.
fail() {
  printf 'error: %s\n' "$*" >&2
  [ -z "${token:-}" ] || [ ! -e "${work:-}/trusted" ] || report_end failed "$*" || true
  exit 1
}

# --- trust

# The token contains the fingerprint of the gateway's authority. Nothing is sent or installed before both match.
check_authority() {
  expected=$(claims | sed -n 's/.*"ca":"\([0-9a-f]\{64\}\)".*/\1/p')
  actual=$(sed '/-----/d' "$work/authority.pem" | base64 -d | sha256sum | cut -d ' ' -f 1)
  [ -n "$expected" ] || fail 'the join token is damaged: copy the complete command again'
  [ "$expected" = "$actual" ] || fail "$gateway is not the gateway that created this token: it has another certificate authority"
  touch "$work/trusted"
}

# Prints the JSON in the middle part of the token.
claims() {
  part=$(printf '%s' "$token" | cut -d . -f 2 | tr '_-' '/+')
  while [ $((${#part} % 4)) -ne 0 ]; do part="$part="; done
  printf '%s' "$part" | base64 -d 2>/dev/null || true
}

# Calls the endpoint, whose certificate contains its role instead of its address. ask PATH [CURL-OPTIONS...]
ask() {
  path=$1
  shift
  curl -sS --cacert "$work/authority.pem" --tlsv1.3 --connect-timeout 15 \
    --connect-to "join.berth.internal:443:$gateway" "https://join.berth.internal$path" "$@"
}

# Reports a step. Prints the gateway's answer. Fails if the gateway does not accept it. report STEP [MESSAGE]
report() {
  message=$(printf '%s' "${2:-}" | tr '\000-\037' ' ' | cut -c 1-400 | sed 's/[\\"]/\\&/g')
  printf '{"token":"%s","step":"%s","message":"%s"}' "$token" "$1" "$message" |
    ask /v1/install --fail-with-body --max-time 30 -H 'Content-Type: application/json' --data-binary @-
}

# Reports how the installation ended. Tries again, because the gateway may be restarting during an upgrade.
report_end() {
  for _ in $(seq "${end_attempts:-1}"); do
    if report "$@" >/dev/null; then return 0; fi
    sleep 5
  done
  return 1
}

# --- the machine

check_machine() {
  say 'Checking this machine'
  command -v apt-get >/dev/null || fail "this system has no apt: the agent needs $supported"
  # shellcheck disable=SC1091 # a file of the system
  case $(. /etc/os-release && echo "$ID ${VERSION_ID:-99}") in
    'debian 1'[2-9]* | 'debian '[2-9][0-9]* | 'ubuntu 2'[4-9]* | 'ubuntu '[3-9]*) ;;
    *) fail "$(. /etc/os-release && echo "${PRETTY_NAME:-this system}") is not supported: the agent needs $supported" ;;
  esac
  architecture=$(dpkg --print-architecture)
  case $architecture in
    amd64 | arm64) ;;
    *) fail "the architecture $architecture is not supported: the agent needs amd64 or arm64" ;;
  esac
  [ -d /run/systemd/system ] || fail 'systemd does not run on this machine'
  [ -e /sys/fs/cgroup/cgroup.controllers ] || [ -d /sys/fs/cgroup/memory ] || fail 'the kernel has no control groups'
  ! has_gateway || fail 'this machine runs a gateway: install its agent with "apt-get install berth"'
  for unit in berth-agent berth-gateway; do
    ! grep -qs /opt/berth "/etc/systemd/system/$unit.service" ||
      fail "$unit is installed from a checkout on this machine: run scripts/down, then delete /etc/systemd/system/berth-*.service and /opt/berth"
  done
  check_kernel
  check_space
  check_port
}

has_gateway() { [ "$(dpkg-query -W -f '${db:Status-Status}' berth-gateway 2>/dev/null)" = installed ]; }

check_kernel() {
  kernel=$(uname -r)
  oldest=$(printf '%s\n5.10\n' "$kernel" | sort -V | head -n 1)
  [ "$oldest" = 5.10 ] || fail "the kernel $kernel is too old: the agent needs 5.10 or newer"
}

check_space() {
  mkdir -p /var/lib
  free_mb=$(df -Pm /var/lib | awk 'NR == 2 { print $4 }')
  [ "$free_mb" -ge "$least_free_mb" ] ||
    fail "/var/lib has $free_mb MB of free space: the agent and the first image need $least_free_mb MB"
}

# Fails if the port is in use, unless the agent of an earlier installation may use it.
check_port() {
  holder=$(ss -Hltnp "sport = :$port" 2>/dev/null || true)
  [ -z "$holder" ] || systemctl -q is-active berth-agent 2>/dev/null ||
    fail "port $port is in use by another program: $(printf '%s' "$holder" | sed -n 's/.*users:(("\([^"]*\)".*/\1/p')"
}

# --- packages

install_packages() {
  say "Installing the agent, version $version"
  report installing >/dev/null || true
  mkdir -p "$packages"
  for name in InRelease Packages berth.gpg; do fetch "$name"; done
  fetch_package berth-runtime
  fetch_package berth-agent
  # This also upgrades an older installation. The packages of its version are retained for a rollback.
  installed=$(installed_version berth-agent)
  [ "$installed" = "$(field berth-agent Version)" ] || ! is_complete "$packages" "$installed" || retain_installed
  mv "$work/InRelease" "$work/Packages" "$packages/"
  install -m 644 "$work/berth.gpg" "$keyring"
  read_packages
  update_system_lists
  install_listed
}

# apt checks the signature of the list. Its own copies are deleted first, because it would keep a newer one.
read_packages() {
  write_sources
  rm -f "$apt_lists"/*_var_lib_berth_packages_*
  run 'reading the packages' apt-get update -o Dir::Etc::SourceList="$sources" -o Dir::Etc::SourceParts=- \
    -o APT::Get::List-Cleanup=0
}

# A source of the system that does not answer must not prevent the installation if all packages are there.
update_system_lists() {
  apt-get update >>"$work/log" 2>&1 || say 'Some package lists of this system could not be updated'
}

# An earlier run may have been interrupted, and its dpkg may still run. Packages that cannot be configured yet, for example
# because another one is missing, are completed by the installation.
complete_interrupted() {
  for _ in $(seq 60); do
    dpkg --configure -a --force-confdef --force-confold >"$work/interrupted" 2>&1 </dev/null && return 0
    grep -q 'lock' "$work/interrupted" || break
    sleep 5
  done
  cat "$work/interrupted" >>"$work/log"
}

is_consistent() { ! dpkg-query -W -f '${db:Status-Abbrev}\n' berth-agent berth-runtime 2>/dev/null | grep -qv -e '^[iurph]i ' -e '^un ' -e '^rc '; }

# apt cannot reinstall packages whose unpacking was interrupted at certain moments. Data and guests stay.
remove_incomplete() {
  dpkg --remove --force-remove-reinstreq --force-depends berth-agent berth-runtime >>"$work/log" 2>&1 </dev/null || true
}

# Installs the packages again even if they are installed, which replaces damaged files.
apt_install() {
  apt-get install -y --reinstall --allow-downgrades -o DPkg::Lock::Timeout=300 \
    -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold \
    "berth-agent=$(field berth-agent Version)" "berth-runtime=$(field berth-runtime Version)"
}

install_listed() {
  had_lxc=$(dpkg-query -W -f '${Version}' lxc 2>/dev/null || true)
  complete_interrupted
  is_consistent || remove_incomplete
  run 'installing the packages' apt_install
  # lxc-net is a bridge with a DHCP server. The agent does not use it, but an LXC that was installed before may do so.
  [ -n "$had_lxc" ] || systemctl -q disable --now lxc-net 2>/dev/null || true
}

# fetch NAME [TARGET]: downloads a file from the gateway's packages
fetch() {
  ask "/packages/$1" -f --retry 3 --retry-connrefused -H @"$work/authorization" -o "${2:-$work/$1}" ||
    fail "$1 could not be downloaded from $gateway"
}

# Downloads a package unless an earlier run has done so. apt checks its digest against the signed list.
# fetch_package PACKAGE [DIRECTORY]
fetch_package() {
  file=$(file_of "$1")
  case $file in '' | */*) fail "the gateway has no package $1 for $architecture" ;; esac
  is_intact "$1" "${2:-$packages}" && return 0
  fetch "$file" "$work/package"
  mv "$work/package" "${2:-$packages}/$file"
}

# is_intact PACKAGE DIRECTORY: true if DIRECTORY contains the package with the digest that the list states
is_intact() { echo "$(field "$1" SHA256)  $2/$(file_of "$1")" | sha256sum -c --status 2>/dev/null; }

file_of() { field "$1" Filename | sed 's|^\./||'; }

# field PACKAGE FIELD: prints a field of a package for this architecture, from $list or else the downloaded list
field() {
  list=${list:-$work/Packages}
  [ -e "$list" ] || list=$packages/Packages
  awk -v package="$1" -v architecture="$architecture" -v field="$2" 'BEGIN { RS = ""; FS = "\n" } {
    delete value
    for (line = 1; line <= NF; line++) {
      at = index($line, ": ")
      value[substr($line, 1, at - 1)] = substr($line, at + 2)
    }
    if (value["Package"] == package && value["Architecture"] == architecture) { print value[field]; exit }
  }' "$list"
}

write_sources() {
  cat >"$sources.new" <<END
# Packages that the gateway of this host provided. Each installation and upgrade by the gateway replaces them.
Types: deb
URIs: file:$packages
Suites: ./
Signed-By: $keyring
END
  mv "$sources.new" "$sources"
}

# run WHAT COMMAND...: runs a command and logs its output; a failure ends the script with a message about WHAT
run() {
  what=$1
  shift
  "$@" >>"$work/log" 2>&1 </dev/null && return 0
  tail -n 15 "$work/log" | sed 's/^/    /' >&2
  fail "$what failed: $(reason)"
}

# Prints the first error in the log, or else the last line of the log.
reason() { grep -m 1 -E '^(E|berth-agent|Error): ' "$work/log" || tail -n 1 "$work/log"; }

# --- joining

join_gateway() {
  report joining >/dev/null || true
  # The gateway connects to the agent from outside. Mutual TLS protects the port. An address set by an operator stays.
  everywhere='0.0.0.0'
  [ ! -e /proc/net/if_inet6 ] || everywhere='[::]'
  sed -i "s/^listen: 127\.0\.0\.1:.*/listen: '$everywhere:$port'/" "$config"
  say "Joining $gateway"
  # A token is valid once. In a repeated installation, it may have been used and the host may have joined already.
  printf '%s' "$token" | berth-agent join - >>"$work/log" 2>&1 || joined_here ||
    fail "the agent could not join: $(reason)"
  run 'starting the agent' systemctl enable berth-agent berth-guests
  run 'starting the agent' systemctl restart berth-agent
}

# True if the agent has a certificate for the host of the token.
joined_here() {
  host=$(claims | sed -n 's/.*"sub":"\([a-z0-9-]*\)".*/\1/p')
  [ "$(berth-agent identity 2>/dev/null | sed -n 's/^host=//p')" = "$host" ]
}

wait_until_online() {
  say 'Waiting until the gateway reaches the agent'
  sleep 3 # The gateway shows a host as online for up to 2 s after its agent has ended.
  answer=''
  for _ in $(seq 45); do
    answer=$(report waiting) || answer=''
    case $answer in *'"status":"online"'*) say "This machine is the host $(value host) and is online" && return 0 ;; esac
    sleep 2
  done
  fail "the gateway cannot reach the agent at $(value address):" \
    "allow TCP connections from the gateway to port $port in the firewalls between them, or set the address at which it" \
    'reaches this host: PATCH /hosts/ID {"address": "HOST:PORT"}. Then run the command again'
}

value() { printf '%s' "$answer" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }

# --- upgrades and rollbacks

# The packages of the installed version become the previous ones, and are installed again if the gateway does not reach
# the agent of the other version. Guests are not affected: they outlive the agent.
upgrade() {
  gateway=$(cat "$2/address") token=$(cat "$2/token") version=$(cat "$2/version") authority=$(cat "$2/authority")
  end_attempts=24
  begin_work
  report checking >/dev/null || fail "the join endpoint $gateway of the gateway does not answer"
  architecture=$(dpkg --print-architecture)
  installed=$(installed_version berth-agent)
  check_upgrade
  if [ "$installed" = "$version" ] && is_consistent; then
    report_end 'done' || true
    return
  fi
  rm -rf "$next"
  mkdir -p "$next"
  if [ "$1" = --rollback ]; then retrieve_previous; else fetch_next; fi
  retain_installed
  activate "$next"
  if attempt change_to "$version"; then
    [ "$1" = --upgrade ] || rm -rf "$previous"
    report_end 'done' || true
    say "Version $version is installed"
  else
    return_to_installed "$(cat "$work/reason")"
  fi
}

check_upgrade() {
  ! has_gateway || fail 'this machine also runs a gateway: upgrade its packages with apt-get'
  free_mb=$(df -Pm /var/lib | awk 'NR == 2 { print $4 }')
  [ "$free_mb" -ge "$least_free_mb_of_upgrade" ] ||
    fail "/var/lib has $free_mb MB of free space: an upgrade needs $least_free_mb_of_upgrade MB"
}

installed_version() { dpkg-query -W -f '${Version}' "$1" 2>/dev/null || true; }

fetch_next() {
  say "Downloading version $version"
  report downloading >/dev/null || true
  may_need_more=1
  for name in InRelease Packages; do fetch "$name" "$next/$name"; done
  check_signature
  list=$next/Packages
  check_offer "$(field berth-agent Version)"
  adopt_keyring
  for name in berth-runtime berth-agent; do
    fetch_package "$name" "$next"
    is_intact "$name" "$next" || fail "the package $name of $gateway differs from the signed list"
  done
}

# Checks that the gateway offers the requested version, which must not be older than the installed one.
check_offer() {
  [ "$1" = "$version" ] || fail "the gateway has version $1 of the agent, and not $version: upgrade berth-repository on the machine of the gateway"
  dpkg --compare-versions "$1" ge "$installed" ||
    fail "this host has version $installed, which is newer than version $1 of the gateway: an upgrade never installs an older version"
}

# Checks the signature with apt. A directory of its own keeps apt from using an earlier list.
check_signature() {
  mkdir -p "$work/lists/partial"
  chmod 711 "$work"
  printf 'Types: deb\nURIs: file:%s\nSuites: ./\nSigned-By: %s\n' "$next" "$keyring" >"$work/next.sources"
  run 'checking the signature of the packages' apt-get update -o Dir::Etc::SourceList="$work/next.sources" \
    -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$work/lists" -o Dir::Cache::pkgcache= \
    -o Dir::Cache::srcpkgcache= -o APT::Update::Error-Mode=any
  # apt also accepts an InRelease without a digest of the file Packages.
  [ "$(listed_digest Packages)" = "$(sha256sum <"$next/Packages" | cut -d ' ' -f 1)" ] ||
    fail "the packages of $gateway are not in the signed list"
}

# Prints the digest of a file in the signed part of InRelease. apt does not read text outside of this part, because
# anybody could have added it. listed_digest FILE
listed_digest() {
  awk 'NR == 1 { if ($0 != "-----BEGIN PGP SIGNED MESSAGE-----") exit; next }
    !body { if ($0 == "") body = 1; else if ($0 !~ /^Hash: [A-Z0-9, ]+$/) exit; next }
    /^-----/ { exit }
    { print }' "$next/InRelease" |
    awk -v file="$1" '/^SHA256:/ { on = 1; next } /^[^ ]/ { on = 0 } on && $3 == file { print $1; exit }'
}

# The signed list contains the digest of the keyring, so that a new key is authenticated by the former one.
adopt_keyring() {
  digest=$(listed_digest berth.gpg)
  [ -n "$digest" ] || return 0
  fetch berth.gpg
  echo "$digest  $work/berth.gpg" | sha256sum -c --status || fail 'the downloaded file berth.gpg differs from the signed list of packages'
  install -m 644 "$work/berth.gpg" "$keyring"
}

retrieve_previous() {
  [ -e "$previous/Packages" ] || fail 'this host retains no packages of a previous version'
  cp -l "$previous"/* "$next/"
  list=$next/Packages
  [ "$(field berth-agent Version)" = "$version" ] ||
    fail "this host retains the packages of version $(field berth-agent Version), not of $version"
}

# An interrupted upgrade may have left the packages of the installed version in $previous already.
retain_installed() {
  if is_complete "$packages" "$installed"; then
    rm -rf "$previous.new"
    mkdir "$previous.new"
    cp -l "$packages/InRelease" "$packages/Packages" "$previous.new/"
    for name in berth-agent berth-runtime; do cp -l "$packages/$(file_of "$name")" "$previous.new/"; done
    rm -rf "$previous"
    mv "$previous.new" "$previous"
  elif ! is_complete "$previous" "$installed"; then
    fail "the packages of the installed version $installed are missing: run the command of the gateway for this host again"
  fi
}

# is_complete DIRECTORY VERSION: true if DIRECTORY contains the list and the intact packages of VERSION
is_complete() {
  [ -e "$1/InRelease" ] && [ -e "$1/Packages" ] || return 1
  list=$1/Packages
  [ "$(field berth-agent Version)" = "$2" ] && is_intact berth-agent "$1" && is_intact berth-runtime "$1"
}

# Makes apt install the packages of DIRECTORY from now on. $packages contains a complete list at every moment.
# activate DIRECTORY
activate() {
  for file in "$1"/*.deb "$1/Packages" "$1/InRelease"; do
    ln -f "$file" "$packages/new"
    mv -f "$packages/new" "$packages/${file##*/}"
  done
  find "$packages" -maxdepth 1 -type f | while read -r file; do
    [ -e "$1/${file##*/}" ] || rm -f "$file"
  done
  rm -rf "$next"
  sync -f "$packages"
  list=$packages/Packages
}

# Runs a step whose failure does not end the script. The reason of the failure is then in $work/reason.
attempt() {
  (
    # shellcheck disable=SC2317 # the steps call it
    fail() {
      printf '%s' "$*" >"$work/reason"
      exit 1
    }
    "$@"
  )
}

# change_to VERSION: installs the activated packages and waits until the gateway reaches the agent
change_to() {
  say "Installing version $1"
  report installing >/dev/null || true
  read_packages
  # A return to the earlier version needs only packages that this system already has.
  [ -z "${may_need_more:-}" ] || update_system_lists
  install_listed
  systemctl start berth-agent || true
  wait_for_version "$1"
}

# Counts answers, because time in which the gateway does not answer proves nothing about the agent.
wait_for_version() {
  say "Waiting until the gateway reaches version $1 of the agent"
  answers=0
  started=$(date +%s)
  while [ "$answers" -lt "$most_answers" ] && [ $(($(date +%s) - started)) -lt "$most_seconds" ]; do
    if answer=$(report waiting); then
      answers=$((answers + 1))
      [ "$(value status) $(value version)" != "online $1" ] || return 0
    fi
    sleep 2
  done
  [ "$answers" -lt "$most_answers" ] || fail "the gateway did not reach version $1 of the agent$(last_words)"
  say "The gateway does not answer: version $1 stays"
}

# Prints the last line that the agent itself has logged.
last_words() {
  journalctl _SYSTEMD_UNIT=berth-agent.service -n 1 -o cat --no-pager 2>/dev/null | cut -c 1-200 | sed 's/^/: /'
}

# return_to_installed REASON: installs the earlier version again, and fails with REASON
return_to_installed() {
  say "Returning to version $installed: $1"
  report rolling_back "$1" >/dev/null || true
  activate "$previous"
  rm -rf "$previous"
  may_need_more=''
  attempt change_to "$installed" || fail "$1; version $installed could not be installed again: $(cat "$work/reason")"
  fail "$1; version $installed is installed again"
}

# --- removal

uninstall() {
  [ "$(id -u)" -eq 0 ] || fail 'run the command as root, for example after "sudo -i"'
  ! has_gateway || fail 'this machine also runs a gateway: remove its packages with apt-get'
  systemctl -q stop berth-upgrade 2>/dev/null || true
  lock
  say 'Removing the agent and all its guests'
  if command -v berth-agent >/dev/null; then
    systemctl -q disable --now berth-agent berth-guests 2>/dev/null || true
    berth-agent purge || fail 'the guests could not be removed; the agent is stopped and still installed'
  fi
  apt-get purge -y berth-agent berth-runtime >/dev/null || fail 'the packages could not be removed'
  rm -rf "$packages" "$sources" "$keyring" "$apt_lists"/*_var_lib_berth_packages_*
  for directory in /var/lib/berth /etc/berth /run/berth; do
    [ ! -d "$directory" ] || find "$directory" -depth -type d -empty -delete
  done
  say 'Berth is removed from this machine. Delete the host in the panel, or with DELETE /hosts/ID'
}

main "$@"
