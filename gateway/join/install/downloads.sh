# --- downloads from the gateway

# fetch NAME [TARGET]: downloads a file from the gateway's packages
fetch() {
  ask "/packages/$1" -f --retry 3 --retry-connrefused -H @"$work/authorization" -o "${2:-$work/$1}" ||
    fail "$1 could not be downloaded from $gateway"
}

# Downloads a package unless an earlier run has done so. apt checks its digest against the signed list.
# fetch_package PACKAGE [DIRECTORY]
fetch_package() {
  file=$(file_of "$1")
  case $file in '' | */*) fail "the gateway offers no package $1 for $architecture" ;; esac
  is_intact "$1" "${2:-$packages}" && return 0
  fetch "$file" "$work/package"
  mv "$work/package" "${2:-$packages}/$file"
}

# is_intact PACKAGE DIRECTORY: true if DIRECTORY contains the package with the digest that the list states
is_intact() { echo "$(field "$1" SHA256)  $2/$(file_of "$1")" | sha256sum -c --status 2>/dev/null; }

file_of() { field "$1" Filename | sed 's|^\./||'; }

# field PACKAGE FIELD: prints a field of a package for this architecture, from $list or else the downloaded list
field() {
  list=${list:-$work/Packages}
  [ -e "$list" ] || list=$packages/Packages
  awk -v package="$1" -v architecture="$architecture" -v field="$2" 'BEGIN { RS = ""; FS = "\n" } {
    delete value
    for (line = 1; line <= NF; line++) {
      at = index($line, ": ")
      value[substr($line, 1, at - 1)] = substr($line, at + 2)
    }
    if (value["Package"] == package && value["Architecture"] == architecture) { print value[field]; exit }
  }' "$list"
}
