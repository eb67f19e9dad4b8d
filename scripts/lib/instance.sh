# shellcheck shell=bash
# shellcheck disable=SC2034 # the sourcing scripts use them
# The paths of an instance of Berth, and the values of its configuration. Sourced, not run. The first instance has no
# name. A named instance (--instance NAME) has different names for everything.

berth_user=berth

# Sets the paths of an instance; the empty name stands for the first one. set_instance NAME
set_instance() {
  instance=$1
  [[ $instance =~ ^([a-z][a-z0-9]{0,7})?$ ]] ||
    fail "instance name '$instance': must be one to eight lower-case letters and digits, and begin with a letter"
  suffix=${instance:+-$instance}
  etc_dir=/etc/berth$suffix
  var_dir=/var/lib/berth$suffix
  run_base=/run/berth$suffix
  log_dir=/var/log/berth$suffix
  lib_dir=/opt/berth$suffix
  admin_key=$etc_dir/admin.key
  setup_link=$etc_dir/panel-setup.url
}

unit_of() { echo "berth-$1$suffix.service"; }
unit_file() { echo "/etc/systemd/system/$(unit_of "$1")"; }
config_of() { echo "$etc_dir/$1.yaml"; }
log_of() { echo "$log_dir/$1.log"; }
pid_file_of() { echo "$run_base/$1.pid"; }
# The file with the digest of the code and configuration with which the daemon was started.
started_file_of() { echo "$var_dir/.$1-started"; }

runs_systemd() { [ -d /run/systemd/system ]; }

# --- values of the configurations, by `PROGRAM KEY`; empty before read_configs

declare -A configured=()

# Prints a configured value, or the default if it is unknown. configured_value PROGRAM KEY [DEFAULT]
configured_value() { echo "${configured["$1 $2"]:-${3:-}}"; }
agent_get() { configured_value agent "$@"; }
gateway_get() { configured_value gateway "$@"; }

agent_state_dir() { agent_get state_dir "$var_dir/agent"; }
agent_run_dir() { agent_get run_dir "$run_base/agent"; }
gateway_state_dir() { gateway_get state_dir "$var_dir/gateway"; }
gateway_run_dir() { gateway_get run_dir "$run_base/gateway"; }
pool_dir() { agent_get storage.pool "$var_dir/pool"; }
loop_file() { agent_get storage.loop_file "$var_dir/pool.img"; }

# Sets `configured`. READER prints a line `KEY<tab>VALUE` for each value of a program. read_configs READER
read_configs() {
  local program values key value
  configured=()
  for program in agent gateway; do
    values=$("$1" "$program") || exit 1
    while IFS=$'\t' read -r key value; do [ -z "$key" ] || configured["$program $key"]=$value; done <<<"$values"
  done
}

# Prints the values that the daemons will read, with the program that `up` has just built.
values_for_up() {
  local values
  values=$(values_by_program . "$1") || fail "$(config_of "$1") cannot be used."
  check_own_values "$1" "$values"
  check_own_subnets "$1" "$values"
  echo "$values"
}

# Reads the values from the first source that works: the installed program, the record of the last `up`, or the shell.
# If none works, the output is empty.
values_for_down() {
  local values='' file
  file=$(config_of "$1")
  if [ -e "$file" ] && values=$(values_by_program . "$1" 2>/dev/null || values_by_program "$lib_dir" "$1"); then
    check_own_values "$1" "$values"
  elif [ -s "$(values_record "$1")" ]; then
    values=$(cat "$(values_record "$1")")
  elif [ -e "$file" ]; then
    values=$(values_by_shell "$1") || fail "$file, line ${values##*$'\n'}" \
      'Build the program (npm install && npm run build), which reads all of YAML, or simplify that line.'
    check_own_values "$1" "$values"
  fi
  echo "$values"
}

# Prints nothing after a failure, because a stop needs only the directories, which have defaults.
values_for_stop() { (values_for_down "$1" 2>/dev/null) || true; }

# Prints the values with the built program, because it reports invalid values. values_by_program DIRECTORY PROGRAM
values_by_program() {
  local json
  [ -e "$1/dist/$2/main.js" ] && command -v node >/dev/null || return 1
  json=$(timeout 60 node "$1/dist/$2/main.js" check-config --config "$(config_of "$2")" 9>&- </dev/null) || return 1
  node -e '
    const print = (value, path) => {
      if (value !== null && typeof value === "object" && !Array.isArray(value))
        for (const key in value) print(value[key], [...path, key])
      else console.log(`${path.join(".")}\t${value}`)
    }
    print(JSON.parse(require("node:fs").readFileSync(0, "utf8")), [])' 9>&- <<<"$json"
}

# Takes omitted keys from the example. If a line cannot be read, prints it and fails. values_by_shell PROGRAM
values_by_shell() {
  local values
  if ! values=$(config_lines "$(config_of "$1")"); then echo "$values" && return 1; fi
  { config_lines "systemd/$1.example.yaml" && echo "$values"; } | awk -F '\t' '{ last[$1] = $0 } END { for (key in last) print last[key] }'
}

# Reads two levels of mappings with plain or simply quoted scalars, and skips lists. It refuses all other YAML, so that
# no value is misread. config_lines FILE
config_lines() {
  awk '
    function refuse() { print NR ": the shell cannot read it: " $0; exit 1 }
    /^ *(#.*)?$/ { next }
    /[\t\r]/ { refuse() }
    /^ *- +[A-Za-z0-9.:\/_-]+ *$/ { next }
    !/^ *[a-z0-9_]+:( |$)/ { refuse() }
    {
      match($0, /^ */); indent = RLENGTH
      key = value = substr($0, indent + 1)
      sub(/:.*/, "", key); sub(/^[^:]*: */, "", value); sub(/(^| +)#.*/, "", value); sub(/ +$/, "", value)
      if (value ~ /^\[[^][{}"\047]*\]$/) next
      if (value ~ /^("[^"\\]*"|\047[^\047]*\047)$/) value = substr(value, 2, length(value) - 2)
      else if (value !~ /^([A-Za-z0-9.\/].*)?$/ || value ~ /:( |$)/) refuse()
      if (indent == 0) { section = key; child = 0; print key "\t" value; next }
      if (child == 0) child = indent
      if (section == "" || indent < child) refuse()
      if (indent == child) print section "." key "\t" value
    }' "$1"
}

values_record() { echo "$var_dir/.$1-values"; }

# Records the values for a purge without a program and configuration. The record is private: URLs can contain passwords.
keep_values() {
  local program key
  for program in agent gateway; do
    (
      umask 077
      for key in "${!configured[@]}"; do
        [[ $key != "$program "* ]] || printf '%s\t%s\n' "${key#* }" "${configured[$key]}"
      done | sort >"$(values_record "$program").new"
    )
    replace_file "$(values_record "$program").new" "$(values_record "$program")"
  done
}

# Keys that two instances must not share. A named instance must not omit one of these keys: it would use the example's
# value, which belongs to the first instance.
own_keys='^(state_dir|run_dir|network\.(bridge|table|interface_prefix)|storage\.(pool|loop_file))'$'\t'

# Fails if another instance already has this instance's value of a key in own_keys. check_own_values PROGRAM VALUES
check_own_values() {
  local key value file records
  file=$(config_of "$1")
  if [ -n "$instance" ] && IFS=$'\t' read -r key value < <(
    grep -E "$own_keys" <<<"$2" | grep -xFf <(config_lines "systemd/$1.example.yaml")
  ); then fail "$file does not set $key: its default, $value, belongs to the first instance: set the value of this instance." 'Nothing was changed.'; fi
  for records in /var/lib/berth/".$1-values" /var/lib/berth-*/".$1-values"; do
    [ -e "$records" ] && [ "$records" != "$(values_record "$1")" ] || continue
    value=$(grep -m 1 -xFf <(grep -E '^(state_dir|run_dir|storage\.(pool|loop_file))' "$records") <<<"$2") || continue
    fail "$file: ${value/$'\t'/: } belongs to another instance, in $(dirname "$records"): set the value of this instance." 'Nothing was changed.'
  done
}

# Two instances must not have the same guest network: the host would drop packets on the second bridge as forged. A
# purge does not need this check. check_own_subnets PROGRAM VALUES
check_own_subnets() {
  local value records
  for records in /var/lib/berth/".$1-values" /var/lib/berth-*/".$1-values"; do
    [ -e "$records" ] && [ "$records" != "$(values_record "$1")" ] || continue
    value=$(grep -m 1 -xFf <(grep -E $'^network\\.subnet6?\t' "$records") <<<"$2") || continue
    fail "$(config_of "$1"): ${value/$'\t'/: } belongs to another instance, in $(dirname "$records"): set the value of this instance." 'Nothing was changed.'
  done
}

# True if any part of the instance exists on this machine.
instance_is_known() {
  local path
  for path in "$etc_dir" "$var_dir" "$run_base" "$log_dir" "$lib_dir" "$lib_dir.new" "$lib_dir.old" \
    "$(unit_file agent)" "$(unit_file gateway)" "$(unit_file guests)"; do
    [ ! -e "$path" ] || return 0
  done
  return 1
}

# Prints the URL of the API on this machine. A wildcard address is replaced by loopback.
api_url() {
  local listen
  listen=$(gateway_get listen 127.0.0.1:8080)
  listen=${listen/#0.0.0.0:/127.0.0.1:}
  echo "http://${listen/#\[::\]:/[::1]:}"
}

# Creates missing configuration files from the commented examples.
write_configs() {
  local program file
  install -d -m 755 "$etc_dir"
  [ -z "$instance" ] || choose_number
  for program in agent gateway; do
    file=$(config_of "$program")
    [ -s "$file" ] && continue # a power failure may leave an empty file
    (
      umask 077
      sed "s#/etc/berth/#$etc_dir/#" "systemd/$program.example.yaml" >"$file.new"
    )
    [ -z "$instance" ] || "give_${program}_its_own" "$file.new"
    replace_file "$file.new" "$file"
    note "wrote $file"
  done
}

# Only root and the gateway's user may read the password in redis.url. An editor can have changed the file's mode.
protect_configs() {
  local file
  for file in "$(config_of agent)" "$(environment_of agent)" "$(environment_of gateway)"; do
    [ ! -e "$file" ] || chmod 600 "$file"
  done
  chown "root:$berth_user" "$(config_of gateway)"
  chmod 640 "$(config_of gateway)"
}

# Chooses a number from 1 to 9 for a named instance. The addresses, ports and names of the instance depend on it.
choose_number() {
  local taken
  [ -s "$etc_dir/number" ] && return 0
  for number in 1 2 3 4 5 6 7 8 9; do
    taken=$(cat /etc/berth-*/number 2>/dev/null | grep -cx "$number" || true)
    [ "$taken" -eq 0 ] && echo "$number" >"$etc_dir/number" && return 0
  done
  fail 'this machine can have at most nine named instances: remove one first'
}

# Sets the agent's own address, bridge, table, interfaces, subnet, ports and idmaps. give_agent_its_own FILE
give_agent_its_own() {
  local n prefix
  n=$(cat "$etc_dir/number")
  prefix=bt$(printf '%s' "$n" | tr 1-9 a-i)
  sed -i -E \
    -e "s#/var/lib/berth/#$var_dir/#; s#/run/berth/#$run_base/#" \
    -e "s#^listen: .*#listen: 127.0.0.1:$((7443 + n))#" \
    -e "s#^  bridge: .*#  bridge: berth$n#; s#^  table: .*#  table: berth_$instance#" \
    -e "s#^  interface_prefix: .*#  interface_prefix: $prefix#" \
    -e "s#^  subnet: .*#  subnet: 10.$((64 + n)).0.0/16#; s#^  subnet6: .*#  subnet6: fd62:6572:7468:$n::/64#" \
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
    -e "s#^tls_listen: .*#tls_listen: '[::]:$((8443 + n))'#; s#^http_listen: .*#http_listen: ''#" \
    -e "s#^  prefix: .*#  prefix: 'berth-$instance:'#" \
    "$1"
}
