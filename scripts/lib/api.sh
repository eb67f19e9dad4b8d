# shellcheck shell=bash
# Functions with which the set-up calls the HTTP API. Sourced after instance.sh.
# shellcheck disable=SC2154 # set by instance.sh

# Prints the body of the response; fails unless its status is 2xx. ps shows arguments, so a pipe passes the API key.
# api METHOD PATH [JSON]
api() {
  curl -sS --fail-with-body --max-time 30 -X "$1" -H @<(printf 'X-API-Key: %s\n' "$(cat "$admin_key")") \
    ${3:+-H 'Content-Type: application/json' --data "$3"} "$(api_url)/api/v1$2"
}

# True if the key is revoked, deleted, disabled or from another store; false if the gateway does not answer.
admin_key_refused() {
  local code
  code=$(curl -s -o /dev/null --max-time 30 -w '%{http_code}' -H @<(printf 'X-API-Key: %s\n' "$(cat "$admin_key")") \
    "$(api_url)/api/v1/hosts") || true
  # 429: too many attempts failed before. The gateway would accept a valid key even then, so this key is invalid.
  [[ $code =~ ^(401|403|429)$ ]]
}

# Reads a value from the JSON on standard input; empty if it is missing. json FILTER [JQ-ARGS...]
json() { jq -r "${@:2}" "($1) // empty" 2>/dev/null || true; }

# Prints the reason why the gateway is not ready; nothing if it does not answer.
gateway_reason() { curl -s --max-time 5 "$(api_url)/readyz" 2>/dev/null | head -n 1 | cut -c 1-500 || true; }

gateway_ready() { [ "$(curl -s -o /dev/null --max-time 5 -w '%{http_code}' "$(api_url)/readyz")" = 200 ]; }

# Prints the state of a host as the gateway sees it: pending, online, offline, or nothing for an unknown host.
host_state() { api GET /hosts 2>/dev/null | json '.data[] | select(.id == $id) | .status' --arg id "$1"; }

# Waits until COMMAND succeeds; fails if the daemon ends. wait_for DAEMON SECONDS LABEL COMMAND...
wait_for() {
  local daemon=$1 seconds=$2 label=$3 started=$SECONDS tries=0 dead=0 why
  shift 3
  until "$@"; do
    # A unit that restarts has no process for a moment. If it has no process for longer, the unit has failed.
    if [ -z "$(daemon_pid "$daemon")" ]; then dead=$((dead + 1)); else dead=0; fi
    [ "$dead" -lt 20 ] || fail_with_log "$daemon" "the $daemon ended"
    if [ $((SECONDS - started)) -ge "$seconds" ]; then
      why=$([ "$daemon" != gateway ] || gateway_reason)
      fail_with_log "$daemon" "timed out after $seconds s waiting until $label${why:+ ($why)}"
    fi
    if [ $((tries += 1)) -eq 50 ]; then
      why=$([ "$daemon" != gateway ] || gateway_reason)
      note "waiting until $label${why:+ ($why)}"
    fi
    sleep 0.1
  done
}
