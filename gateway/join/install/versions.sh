# --- packages of the installed and of the previous version

# Prepares the packages of a rollback in $next. An earlier, interrupted attempt can have copied or even activated them.
# If they are already active, $previous contains the packages of the installed version.
retrieve_previous() {
  for source in "$next" "$previous" "$packages"; do
    if is_complete "$source" "$version"; then
      [ "$source" = "$next" ] || copy_packages "$source" "$next"
      list=$next/Packages
      return
    fi
  done
  [ -e "$previous/Packages" ] || fail 'a rollback is not possible: this host retains no packages of a previous version'
  list=$previous/Packages
  fail "a rollback to version $version is not possible: this host has no complete packages of it, only retained packages of version $(field berth-agent Version)"
}

# An interrupted upgrade can have left the packages of the installed version in $previous already.
retain_installed() {
  if is_complete "$packages" "$installed"; then
    copy_packages "$packages" "$previous.new"
    rm -rf "$previous"
    mv "$previous.new" "$previous"
  elif ! is_complete "$previous" "$installed"; then
    fail "the packages of the installed version $installed are missing: run the command of POST /hosts/ID/join-token on this host"
  fi
}

# copy_packages FROM TO
copy_packages() {
  rm -rf "$2"
  mkdir "$2"
  cp -l "$1/InRelease" "$1/Packages" "$2/"
  list=$1/Packages
  for name in berth-agent berth-runtime; do cp -l "$1/$(file_of "$name")" "$2/"; done
}

# is_complete DIRECTORY VERSION: true if DIRECTORY contains the list and the intact packages of VERSION
is_complete() {
  [ -e "$1/InRelease" ] && [ -e "$1/Packages" ] || return 1
  list=$1/Packages
  [ "$(field berth-agent Version)" = "$2" ] && is_intact berth-agent "$1" && is_intact berth-runtime "$1"
}

# activate DIRECTORY: makes apt install the packages of DIRECTORY from now on. The list in $packages is complete at
# every moment.
activate() {
  for file in "$1"/*.deb "$1/Packages" "$1/InRelease"; do
    # If an interrupted run has already linked the file, mv would fail.
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
