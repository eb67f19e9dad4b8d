# --- upgrades and rollbacks

# Installs another version. The packages of the present version are retained as previous packages. If the gateway does
# not reach the new agent, the previous packages are installed again. Guests continue to run, because they do not need
# the agent.
upgrade() {
  action=$1
  read_order "$2"
  lock
  begin_work
  report checking >/dev/null || fail "the join endpoint $gateway of the gateway does not answer"
  architecture=$(dpkg --print-architecture)
  installed=$(installed_version berth-agent)
  check_upgrade
  if [ "$installed" = "$version" ] && is_consistent; then
    complete_upgrade "$1"
    return
  fi
  # After an interruption of dpkg between two versions, the packages of the former version must still be retained.
  if [ -e "$pending/former" ] && { [ -z "$installed" ] || ! is_consistent; }; then installed=$(cat "$pending/former"); fi
  if [ "$1" = --rollback ]; then retrieve_previous; else fetch_next; fi
  retain_installed
  begin_pending "$1" "$2"
  activate "$next"
  if attempt change_to "$version"; then
    complete_upgrade "$1"
  else
    return_to_installed "$(cat "$work/reason")"
  fi
}

# Reads a request of the gateway for an upgrade. read_order DIRECTORY
read_order() {
  gateway=$(cat "$1/address") token=$(cat "$1/token") version=$(cat "$1/version") authority=$(cat "$1/authority")
  end_attempts=24
}

# complete_upgrade ACTION: ends an upgrade or rollback that has succeeded, and reports the success
complete_upgrade() {
  [ "$1" = --upgrade ] || rm -rf "$previous"
  end_pending
  report_end 'done' || true
  say "Version $version is installed"
}

check_upgrade() {
  ! has_gateway || fail 'this machine also runs a gateway: upgrade its packages with apt-get'
  free_mb=$(df -Pm /var/lib | awk 'NR == 2 { print $4 }')
  [ "$free_mb" -ge "$least_free_mb_of_upgrade" ] ||
    fail "/var/lib has $free_mb MB of free space: an upgrade needs $least_free_mb_of_upgrade MB"
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

# Counts answers of the gateway, not seconds, because a gateway without an answer proves nothing about the agent.
wait_for_version() {
  say "Waiting until the agent is online at the gateway with version $1"
  answers=0
  started=$(date +%s)
  while [ "$answers" -lt "$most_answers" ] && [ $(($(date +%s) - started)) -lt "$most_seconds" ]; do
    if answer=$(report waiting); then
      answers=$((answers + 1))
      [ "$(value status) $(value version)" != "online $1" ] || return 0
    fi
    sleep 2
  done
  [ "$answers" -lt "$most_answers" ] || fail "the agent did not come online at the gateway with version $1$(last_words)"
  say "The gateway does not answer, so it is unknown whether version $1 works: this version stays installed"
}

# Prints the last error that the agent has logged, without its stack trace. Without an error, prints the last line.
last_words() {
  journalctl _SYSTEMD_UNIT=berth-agent.service -n 50 -o cat --no-pager 2>/dev/null |
    awk '{ line = $0 } /^berth-agent: / { error = $0 } END { if (NR) print ": " substr(error != "" ? error : line, 1, 200) }'
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
