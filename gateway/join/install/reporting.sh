# --- reports to the gateway, and the check of its authority

# Callers must hold the lock.
begin_work() {
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  printf '%s\n' "$authority" >"$work/authority.pem"
  # The token is passed to curl in a file, because other users can read the arguments of curl.
  (umask 077 && printf 'Authorization: Bearer %s\n' "$token" >"$work/authorization")
  check_authority
}

# Installations, upgrades and the removal wait for each other. The lock file is not in /run/lock, where all users may
# create files. Only root can read the lock file, because users who can read a file can lock it.
lock() {
  (umask 077 && : >>"$lock_file")
  exec 9>"$lock_file"
  flock -w 600 9 || fail 'another installation or upgrade of the agent is still in progress'
}

say() { printf '==> %s\n' "$*"; }

# Prints the reason, and reports it to the gateway, which shows the reason in the panel.
fail() {
  printf 'error: %s\n' "$*" >&2
  [ -z "${token:-}" ] || [ ! -e "${work:-}/trusted" ] || report_end failed "$*" || true
  exit 1
}

# The token contains the fingerprint of the gateway's authority. Nothing is sent or installed before the authority
# matches this fingerprint.
check_authority() {
  expected=$(claims | sed -n 's/.*"ca":"\([0-9a-f]\{64\}\)".*/\1/p')
  actual=$(sed '/-----/d' "$work/authority.pem" | base64 -d | sha256sum | cut -d ' ' -f 1)
  [ -n "$expected" ] || fail 'the join token is damaged: copy the complete command again'
  [ "$expected" = "$actual" ] || fail "$gateway is not the gateway that created this token: it has another certificate authority. If the certificate authority of the fleet was replaced, create a new token"
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

# Reports how the installation ended. Tries again, because the gateway can be restarting during an upgrade.
report_end() {
  for _ in $(seq "${end_attempts:-1}"); do
    if report "$@" >/dev/null; then return 0; fi
    sleep 5
  done
  return 1
}

value() { printf '%s' "$answer" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }
