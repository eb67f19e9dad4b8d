# --- return to the former version

# While packages are being replaced, $pending contains the gateway's request, the former version and a copy of this
# script. If the machine restarts meanwhile, a unit runs the copy at boot. The unit belongs to no package, because dpkg
# can have unpacked a package only partly. begin_pending ACTION DIRECTORY
begin_pending() {
  rm -rf "$pending.new"
  (umask 077 && mkdir "$pending.new")
  for name in address token version authority; do cp "$2/$name" "$pending.new/"; done
  printf '%s\n' "$1" >"$pending.new/action"
  printf '%s\n' "$installed" >"$pending.new/former"
  cp "$0" "$pending.new/install.sh"
  write_resume_unit
  rm -rf "$pending"
  mv "$pending.new" "$pending"
  sync -f "$packages" "$units"
}

write_resume_unit() {
  cat >"$units/$resume_unit" <<END
[Unit]
Description=Berth: ends an upgrade of the agent that a restart of this machine interrupted
ConditionPathExists=$pending
Wants=network-online.target
After=network-online.target berth-agent.service

[Service]
# The boot does not wait until this unit has ended.
Type=exec
ExecStart=/bin/sh $pending/install.sh --resume
RuntimeMaxSec=1h

[Install]
WantedBy=multi-user.target
END
  run 'preparing a return to the installed version' systemctl enable "$resume_unit"
}

end_pending() {
  [ -e "$pending" ] || [ -e "$units/$resume_unit" ] || return 0
  rm -rf "$pending.old"
  [ ! -e "$pending" ] || mv "$pending" "$pending.old"
  systemctl -q disable "$resume_unit" 2>/dev/null || true
  rm -rf "$pending.old" "${units:?}/$resume_unit"
  sync -f "$packages" "$units"
}

# Runs at boot after an interrupted upgrade. The new version stays only if the gateway reaches its agent.
resume() {
  lock
  # Another run of this script can have ended the upgrade meanwhile.
  [ -e "$pending" ] || return 0
  read_order "$pending"
  action=$(cat "$pending/action") installed=$(cat "$pending/former")
  begin_work
  architecture=$(dpkg --print-architecture)
  case $(installed_version berth-agent) in
    "$version" | "$installed" | '') ;;
    # Another version was installed meanwhile, for example with the gateway's command for this host.
    *)
      end_pending
      return
      ;;
  esac
  printf 'this machine was restarted during the upgrade' >"$work/reason"
  if [ "$(installed_version berth-agent)" = "$version" ] && is_consistent && attempt wait_for_version "$version"; then
    complete_upgrade "$action"
  else
    return_to_installed "$(cat "$work/reason")"
  fi
}

# return_to_installed REASON: installs the earlier version again, and fails with REASON. The packages of this version
# stay until they are installed. A failed rollback can be tried again.
return_to_installed() {
  say "Returning to version $installed: $1"
  report rolling_back "$1" >/dev/null || true
  if [ "$action" = --rollback ] && is_complete "$packages" "$version"; then copy_packages "$packages" "$undone"; fi
  is_returned || install_former "$1"
  retrieve_undone
  end_pending
  fail "$1; version $installed is installed again"
}

# True if an interrupted return has already installed the former version. The return can have removed the packages.
is_returned() {
  [ "$(installed_version berth-agent)" = "$installed" ] && is_consistent && is_complete "$packages" "$installed"
}

# install_former REASON: installs the former version. If its packages are missing, the return is given up for good.
install_former() {
  if ! is_complete "$previous" "$installed"; then
    end_pending
    fail "$1; the packages of version $installed are missing: run the command of POST /hosts/ID/join-token on this host"
  fi
  activate "$previous"
  may_need_more=''
  attempt change_to "$installed" || fail "$1; version $installed could not be installed again: $(cat "$work/reason")"
}

# After a failed rollback, moves its packages back to $previous, unless an interrupted return has done so.
retrieve_undone() {
  if [ ! -e "$undone" ] && is_complete "$previous" "$version"; then return; fi
  rm -rf "$previous"
  [ ! -e "$undone" ] || mv "$undone" "$previous"
}
