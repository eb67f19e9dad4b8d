# --- installation with apt and dpkg

# apt checks the signature of the list. Copies of earlier lists are deleted first, because apt prefers a newer copy.
read_packages() {
  write_sources
  rm -f "$apt_lists"/*_var_lib_berth_packages_*
  run 'reading the package index of Berth' apt-get update -o Dir::Etc::SourceList="$sources" -o Dir::Etc::SourceParts=- \
    -o APT::Get::List-Cleanup=0
}

# If a package source of the system is unreachable, the installation continues, because perhaps no package is missing.
update_system_lists() {
  apt-get update >>"$work/log" 2>&1 || say 'Some package lists of this system could not be updated'
}

write_sources() {
  cat >"$sources.new" <<END
# Packages that the gateway of this host provided. Each installation and upgrade by the gateway replaces them.
Types: deb
URIs: file:$packages
Suites: ./
Signed-By: $keyring
END
  mv "$sources.new" "$sources"
}

install_listed() {
  had_lxc=$(dpkg-query -W -f '${Version}' lxc 2>/dev/null || true)
  complete_interrupted
  is_consistent || remove_incomplete
  run 'installing the packages' apt_install
  # The agent does not need lxc-net, a bridge with a DHCP server. Other programs can need it if LXC existed before.
  [ -n "$had_lxc" ] || systemctl -q disable --now lxc-net 2>/dev/null || true
}

# Completes the work of an interrupted run, whose dpkg is perhaps still running. If packages cannot be configured yet,
# for example because another package is missing, the installation configures them.
complete_interrupted() {
  for _ in $(seq 60); do
    dpkg --configure -a --force-confdef --force-confold >"$work/interrupted" 2>&1 </dev/null && return 0
    grep -q 'lock' "$work/interrupted" || break
    sleep 5
  done
  cat "$work/interrupted" >>"$work/log"
}

is_consistent() { ! dpkg-query -W -f '${db:Status-Abbrev}\n' berth-agent berth-runtime 2>/dev/null | grep -qv -e '^[iurph]i ' -e '^un ' -e '^rc '; }

# Removes packages whose unpacking was interrupted, because apt cannot always reinstall them. Data and guests stay.
remove_incomplete() {
  dpkg --remove --force-remove-reinstreq --force-depends berth-agent berth-runtime >>"$work/log" 2>&1 </dev/null || true
}

# Installs even packages that are already installed, so that damaged files are replaced.
apt_install() {
  apt-get install -y --reinstall --allow-downgrades -o DPkg::Lock::Timeout=300 \
    -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold \
    "berth-agent=$(field berth-agent Version)" "berth-runtime=$(field berth-runtime Version)"
}

installed_version() { dpkg-query -W -f '${Version}' "$1" 2>/dev/null || true; }

# run WHAT COMMAND...: runs a command and logs its output; a failure ends the script with a message about WHAT
run() {
  what=$1
  shift
  "$@" >>"$work/log" 2>&1 </dev/null && return 0
  tail -n 15 "$work/log" | sed 's/^/    /' >&2
  fail "$what failed: $(reason)"
}

# Prints the first error in the log, or else the last line of the log.
reason() { grep -m 1 -E '^(E|berth-agent|Error): ' "$work/log" || tail -n 1 "$work/log"; }
