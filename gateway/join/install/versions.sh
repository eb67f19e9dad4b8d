# --- packages of the installed and of the previous version

retrieve_previous() {
  [ -e "$previous/Packages" ] || fail 'this host retains no packages of a previous version'
  cp -l "$previous"/* "$next/"
  list=$next/Packages
  [ "$(field berth-agent Version)" = "$version" ] ||
    fail "this host retains the packages of version $(field berth-agent Version), not of $version"
}

# An interrupted upgrade may have left the packages of the installed version in $previous already.
retain_installed() {
  if is_complete "$packages" "$installed"; then
    rm -rf "$previous.new"
    mkdir "$previous.new"
    cp -l "$packages/InRelease" "$packages/Packages" "$previous.new/"
    for name in berth-agent berth-runtime; do cp -l "$packages/$(file_of "$name")" "$previous.new/"; done
    rm -rf "$previous"
    mv "$previous.new" "$previous"
  elif ! is_complete "$previous" "$installed"; then
    fail "the packages of the installed version $installed are missing: run the command of the gateway for this host again"
  fi
}

# is_complete DIRECTORY VERSION: true if DIRECTORY contains the list and the intact packages of VERSION
is_complete() {
  [ -e "$1/InRelease" ] && [ -e "$1/Packages" ] || return 1
  list=$1/Packages
  [ "$(field berth-agent Version)" = "$2" ] && is_intact berth-agent "$1" && is_intact berth-runtime "$1"
}

# Makes apt install the packages of DIRECTORY from now on. $packages contains a complete list at every moment.
# activate DIRECTORY
activate() {
  for file in "$1"/*.deb "$1/Packages" "$1/InRelease"; do
    # An interrupted run may have linked the file already, which mv refuses.
    # shellcheck disable=SC3013 # dash knows -ef
    if [ "$file" -ef "$packages/${file##*/}" ]; then continue; fi
    ln -f "$file" "$packages/new"
    mv -f "$packages/new" "$packages/${file##*/}"
  done
  find "$packages" -maxdepth 1 -type f | while read -r file; do
    [ -e "$1/${file##*/}" ] || rm -f "$file"
  done
  rm -rf "$next"
  sync -f "$packages"
  list=$packages/Packages
}
