# --- a new host, or the repair of an existing one

install_agent() {
  [ "$(id -u)" -eq 0 ] || fail 'run the command as root, for example after "sudo -i"'
  lock
  begin_work
  answer=$(report checking) || fail "$gateway refuses the token: $(value message)"
  check_machine
  install_packages
  join_gateway
  wait_until_online
}

install_packages() {
  say "Installing the agent, version $version"
  report installing >/dev/null || true
  mkdir -p "$packages"
  for name in InRelease Packages berth.gpg; do fetch "$name"; done
  fetch_package berth-runtime
  fetch_package berth-agent
  # Upgrades an installed older version. The packages of that version are retained for a rollback.
  installed=$(installed_version berth-agent)
  [ "$installed" = "$(field berth-agent Version)" ] || ! is_complete "$packages" "$installed" || retain_installed
  mv "$work/InRelease" "$work/Packages" "$packages/"
  install -m 644 "$work/berth.gpg" "$keyring"
  read_packages
  update_system_lists
  install_listed
  # Gives up an earlier, interrupted upgrade, because that upgrade must not change the version at the next boot.
  end_pending
}

join_gateway() {
  report joining >/dev/null || true
  # The gateway connects from outside, so the agent listens on all addresses, protected by mutual TLS. An address that
  # an operator has set stays.
  everywhere='0.0.0.0'
  [ ! -e /proc/net/if_inet6 ] || everywhere='[::]'
  sed -i "s/^listen: 127\.0\.0\.1:.*/listen: '$everywhere:$port'/" "$config"
  say "Joining $gateway"
  # A token can be used once. If this installation is repeated, the host has perhaps joined with the token already.
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
  say 'Waiting until the gateway can connect to the agent'
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
