# --- removal

uninstall() {
  [ "$(id -u)" -eq 0 ] || fail 'run the command as root, for example after "sudo -i"'
  ! has_gateway || fail 'this machine also runs a gateway: remove its packages with apt-get'
  systemctl -q stop berth-upgrade "$resume_unit" 2>/dev/null || true
  lock
  say 'Removing the agent and all its guests'
  if command -v berth-agent >/dev/null; then
    systemctl -q disable --now berth-agent berth-guests 2>/dev/null || true
    berth-agent purge || fail 'the guests could not be removed; the agent is stopped and still installed'
  fi
  apt-get purge -y berth-agent berth-runtime >/dev/null || fail 'the packages could not be removed'
  end_pending
  rm -rf "$packages" "$sources" "$keyring" "$apt_lists"/*_var_lib_berth_packages_*
  for directory in /var/lib/berth /etc/berth /run/berth; do
    [ ! -d "$directory" ] || find "$directory" -depth -type d -empty -delete
  done
  say 'Berth is removed from this machine. Delete the host in the panel, or with DELETE /hosts/ID'
}
