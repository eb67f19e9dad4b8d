#!/bin/sh
# A script as operators write it, with curl only. URL and KEY belong to the gateway. TRANSCRIPT gets each answer.
set -eu

# api METHOD PATH [JSON]: sends a request, adds the answer to TRANSCRIPT, and prints its body.
api() {
  method=$1 path=$2
  shift 2
  if [ $# -gt 0 ]; then set -- --data "$1" --header 'Content-Type: application/json'; fi
  curl --silent --show-error --dump-header "$TRANSCRIPT.head" --output "$TRANSCRIPT.body" \
    --request "$method" --header "X-API-Key: $KEY" "$@" "$URL/api/v1$path"
  {
    printf '%s %s\n' "$method" "$path"
    tr -d '\r' <"$TRANSCRIPT.head"
    cat "$TRANSCRIPT.body"
    printf '\n'
  } >>"$TRANSCRIPT"
  cat "$TRANSCRIPT.body"
}

# field NAME: prints the last value with that name in the JSON on standard input.
field() {
  sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"
  echo # the JSON has no line break at its end
}

# follow TASK ACTION: waits until the task ends, and prints the action and the status of the task.
follow() {
  while :; do
    status=$(api GET "/tasks/$1" | field status)
    case $status in
    pending | running) sleep 0.2 ;;
    *) break ;;
    esac
  done
  echo "$2 $status"
}

task=$(api POST /containers '{"name":"shell1","template_id":"debian-12","vcpu":0.5,"ram_mb":64,"disk_gb":1}' | field task_id)
follow "$task" create
port=$(api GET '/containers/shell1/random-port?count=1' | field port)
api POST /containers/shell1/port-mappings "{\"container_port\": 80, \"host_port\": \"$port\"}" >/dev/null
api PUT /containers/shell1/firewall '{"enabled": true, "default_action": "DROP", "rules": []}' | field message
api PUT /containers/shell1/expiry "{\"expires_at\": $(date -d '2031-01-01 00:00:00 UTC' +%s)}" | field message
api GET /containers/shell1 | field expires_at
snapshot=$(api POST /containers/shell1/snapshots '{"description": "before the upgrade"}' | field id)
api POST /containers/shell1/snapshots/schedule '{"enabled": true, "interval_hours": 24, "time": "03:30"}' | field message
api POST "/containers/shell1/snapshots/$snapshot/restore" | field message
api DELETE "/containers/shell1/snapshots/$snapshot" | field message
api POST /containers/shell1/reset-password | field password
follow "$(api POST /containers/shell1/reinstall '{"template_id": "debian-12", "ssh_auth_mode": "keep"}' | field task_id)" reinstall
follow "$(api POST /containers/shell1/stop | field task_id)" stop
follow "$(api POST /containers/shell1/start '' | field task_id)" start
follow "$(api DELETE /containers/shell1/delete | field task_id)" delete
api GET /containers/shell1 | field code
