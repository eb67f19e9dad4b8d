# --- return to the former version

# return_to_installed REASON: installs the earlier version again, and fails with REASON
return_to_installed() {
  say "Returning to version $installed: $1"
  report rolling_back "$1" >/dev/null || true
  activate "$previous"
  rm -rf "$previous"
  may_need_more=''
  attempt change_to "$installed" || fail "$1; version $installed could not be installed again: $(cat "$work/reason")"
  fail "$1; version $installed is installed again"
}
