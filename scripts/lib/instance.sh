# shellcheck shell=bash
# shellcheck disable=SC2034 # the sourcing scripts use them
# Where an instance of Berth keeps what, and the values of its configuration. Sourced, not run.
# The first instance has no name; a named one (--instance NAME) lives beside it with names of its own.

berth_user=berth

# Sets the paths of an instance. set_instance NAME ('' is the first)
set_instance() {
  instance=$1
  [[ $instance =~ ^([a-z][a-z0-9]{0,7})?$ ]] ||
    fail "instance name '$instance': one to eight lower-case letters and digits, a letter first"
  suffix=${instance:+-$instance}
  etc_dir=/etc/berth$suffix
  var_dir=/var/lib/berth$suffix
  run_base=/run/berth$suffix
  log_dir=/var/log/berth$suffix
  lib_dir=/opt/berth$suffix
  admin_key=$etc_dir/admin.key
}

unit_of() { echo "berth-$1$suffix.service"; }
unit_file() { echo "/etc/systemd/system/$(unit_of "$1")"; }
config_of() { echo "$etc_dir/$1.yaml"; }
log_of() { echo "$log_dir/$1.log"; }
pid_file_of() { echo "$run_base/$1.pid"; }
# Digest of the code and configuration that the daemon was started with.
started_file_of() { echo "$var_dir/.$1-started"; }

runs_systemd() { [ -d /run/systemd/system ]; }

# A value of a configuration file: two levels of plain scalars, which is all that Berth's have.
# The daemons read the files with a YAML parser; this one works when they cannot. config_get FILE KEY DEFAULT
config_get() {
  local value=''
  [ ! -r "$1" ] || value=$(awk -v want="$2" '
    /^[ \t]*(#|$)/ { next }
    match($0, /^ */) { indent = RLENGTH }
    {
      key = $0; sub(/:.*/, "", key); gsub(/[ \t]/, "", key)
      value = $0; sub(/^[^:]*:[ \t]*/, "", value); sub(/[ \t]+#.*$/, "", value); sub(/[ \t]+$/, "", value)
      if (value ~ /^".*"$/ || value ~ /^\047.*\047$/) value = substr(value, 2, length(value) - 2)
      if (indent == 0) section = key
      path = indent == 0 ? key : section "." key
      if (path == want) { print value; exit }
    }' "$1")
  echo "${value:-$3}"
}

agent_get() { config_get "$(config_of agent)" "$@"; }
gateway_get() { config_get "$(config_of gateway)" "$@"; }

agent_state_dir() { agent_get state_dir "$var_dir/agent"; }
agent_run_dir() { agent_get run_dir "$run_base/agent"; }
gateway_state_dir() { gateway_get state_dir "$var_dir/gateway"; }
gateway_run_dir() { gateway_get run_dir "$run_base/gateway"; }
pool_dir() { agent_get storage.pool "$var_dir/pool"; }
loop_file() { agent_get storage.loop_file "$var_dir/pool.img"; }

# The API as reached from this host: a wildcard address is reached at loopback.
api_url() {
  local listen
  listen=$(gateway_get listen 127.0.0.1:8080)
  listen=${listen/#0.0.0.0:/127.0.0.1:}
  echo "http://${listen/#\[::\]:/[::1]:}"
}

# Writes the configurations that are absent, from the commented examples.
write_configs() {
  local program file
  install -d -m 755 "$etc_dir"
  [ -z "$instance" ] || choose_number
  for program in agent gateway; do
    file=$(config_of "$program")
    [ -e "$file" ] && continue
    sed "s#/etc/berth/#$etc_dir/#" "systemd/$program.example.yaml" >"$file.new"
    [ -z "$instance" ] || "give_${program}_its_own" "$file.new"
    chmod 644 "$file.new"
    mv "$file.new" "$file"
    note "wrote $file"
  done
}

# A named instance's number, 1 to 9: everything that must differ is counted from it.
choose_number() {
  local taken
  [ -s "$etc_dir/number" ] && return 0
  for number in 1 2 3 4 5 6 7 8 9; do
    taken=$(cat /etc/berth-*/number 2>/dev/null | grep -cx "$number" || true)
    [ "$taken" -eq 0 ] && echo "$number" >"$etc_dir/number" && return 0
  done
  fail 'there are nine named instances already'
}

# Its own address, bridge, table, interfaces, subnet, ports and idmaps. give_agent_its_own FILE
give_agent_its_own() {
  local n prefix
  n=$(cat "$etc_dir/number")
  prefix=bt$(printf '%s' "$n" | tr 1-9 a-i)
  sed -i -E \
    -e "s#/var/lib/berth/#$var_dir/#; s#/run/berth/#$run_base/#" \
    -e "s#^listen: .*#listen: 127.0.0.1:$((7443 + n))#" \
    -e "s#^  bridge: .*#  bridge: berth$n#; s#^  table: .*#  table: berth_$instance#" \
    -e "s#^  interface_prefix: .*#  interface_prefix: $prefix#" \
    -e "s#^  subnet: .*#  subnet: 10.$((64 + n)).0.0/16#" \
    -e "s#^    start: .*#    start: $((9000 + n * 1000))#; s#^    end: .*#    end: $((9999 + n * 1000))#" \
    -e "s#^  idmap_base: .*#  idmap_base: $((1000000 + 30000 * 65536 + (n - 1) * 2000 * 65536))#" \
    -e "s#^  idmap_slots: .*#  idmap_slots: 2000#" \
    "$1"
}

give_gateway_its_own() {
  local n
  n=$(cat "$etc_dir/number")
  sed -i -E \
    -e "s#/var/lib/berth/#$var_dir/#; s#/run/berth/#$run_base/#" \
    -e "s#^listen: .*#listen: 127.0.0.1:$((8080 + n * 10))#" \
    -e "s#^join_listen: .*#join_listen: 127.0.0.1:$((8081 + n * 10))#" \
    -e "s#^  prefix: .*#  prefix: 'berth-$instance:'#" \
    "$1"
}
