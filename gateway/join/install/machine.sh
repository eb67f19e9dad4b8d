# --- requirements of the agent

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
  ! has_gateway || fail 'this machine runs a gateway: install the agent on this machine with "apt-get install berth"'
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

# Fails if another program uses the port. While an agent runs, it can be the program that uses the port.
check_port() {
  holder=$(ss -Hltnp "sport = :$port" 2>/dev/null || true)
  [ -z "$holder" ] || systemctl -q is-active berth-agent 2>/dev/null ||
    fail "port $port is in use by another program: $(printf '%s' "$holder" | sed -n 's/.*users:(("\([^"]*\)".*/\1/p')"
}
