# --- packages that a gateway offers for an upgrade

fetch_next() {
  say "Downloading version $version"
  report downloading >/dev/null || true
  may_need_more=1
  rm -rf "$next"
  mkdir -p "$next"
  for name in InRelease Packages; do fetch "$name" "$next/$name"; done
  check_signature
  list=$next/Packages
  check_offer "$(field berth-agent Version)"
  adopt_keyring
  for name in berth-runtime berth-agent; do
    fetch_package "$name" "$next"
    is_intact "$name" "$next" || fail "the downloaded package $name differs from the signed package index of $gateway"
  done
}

# Checks that the gateway offers the requested version, and that it is not older than the installed version.
check_offer() {
  [ "$1" = "$version" ] || fail "$gateway offers version $1 of the agent, but this upgrade needs version $version: upgrade the package berth-repository on the machine of the gateway"
  dpkg --compare-versions "$1" ge "$installed" ||
    fail "$gateway offers version $1 of the agent, which is older than the installed version $installed: an upgrade never installs an older version"
}

# Checks the signature with apt, in a separate directory, so that apt does not use a list from an earlier run.
check_signature() {
  mkdir -p "$work/lists/partial"
  chmod 711 "$work"
  printf 'Types: deb\nURIs: file:%s\nSuites: ./\nSigned-By: %s\n' "$next" "$keyring" >"$work/next.sources"
  run 'checking the signature of the packages' apt-get update -o Dir::Etc::SourceList="$work/next.sources" \
    -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$work/lists" -o Dir::Cache::pkgcache= \
    -o Dir::Cache::srcpkgcache= -o APT::Update::Error-Mode=any
  # The digest of Packages is checked here, because apt also accepts an InRelease without this digest.
  [ "$(listed_digest Packages)" = "$(sha256sum <"$next/Packages" | cut -d ' ' -f 1)" ] ||
    fail "the package index of $gateway differs from the one in its signed InRelease file"
}

# listed_digest FILE: prints the digest of a file in the signed part of InRelease. Anybody could have added text outside
# of this part. apt ignores such text.
listed_digest() {
  awk 'NR == 1 { if ($0 != "-----BEGIN PGP SIGNED MESSAGE-----") exit; next }
    !body { if ($0 == "") body = 1; else if ($0 !~ /^Hash: [A-Z0-9, ]+$/) exit; next }
    /^-----/ { exit }
    { print }' "$next/InRelease" |
    awk -v file="$1" '/^SHA256:/ { on = 1; next } /^[^ ]/ { on = 0 } on && $3 == file { print $1; exit }'
}

# The signed list contains the digest of the new keyring. The former key thus proves that the new key is genuine.
adopt_keyring() {
  digest=$(listed_digest berth.gpg)
  [ -n "$digest" ] || return 0
  fetch berth.gpg
  echo "$digest  $work/berth.gpg" | sha256sum -c --status || fail "the downloaded file berth.gpg differs from the signed package index of $gateway"
  install -m 644 "$work/berth.gpg" "$keyring"
}
