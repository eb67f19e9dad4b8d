/**
 * What a first boot sets, run by the guest's own /bin/sh inside its namespaces: POSIX, so that Debian's dash
 * and BusyBox both take it. Everything it knows comes on standard input (plan-login.ts).
 *
 * The guest may have planted anything at any path. A file is therefore never opened for writing where it is:
 * a fresh one is made beside it and renamed over it, and what is no plain file there is removed first. At
 * worst the guest deceives itself; the caller bounds time and output.
 *
 * The password's line in /etc/shadow is replaced likewise; chpasswd(8), which a guest without a shadow file
 * gets, syncs four times and asks for two daemons: 25 to 50 ms.
 * The files are on the disk at the end, for it is journaled then that they are: some 15 ms.
 */
export const guestScript = `
set -u
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
umask 022
IFS= read -r host || exit 90
IFS= read -r resolvers || exit 90
IFS= read -r hash || exit 90
IFS= read -r key || exit 90

nl='
'

replace() { # path content
  if [ -L "$1" ] || { [ -e "$1" ] && [ ! -f "$1" ]; }; then rm -rf "$1"; fi
  if [ -L "$1.berth" ] || [ -e "$1.berth" ]; then rm -rf "$1.berth"; fi
  (set -C; printf '%s\\n' "$2" >"$1.berth") && mv -f "$1.berth" "$1"
}

real_directory() { # path
  if [ -L "$1" ] || { [ -e "$1" ] && [ ! -d "$1" ]; }; then rm -rf "$1"; fi
  [ -d "$1" ] || mkdir "$1"
}

with_hash() { # lines of a shadow file
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in root:*)
      line=\${line#root:}
      line="root:$hash:\${line#*:}"
      ;;
    esac
    printf '%s\\n' "$line"
  done
}

set_hash() {
  if [ -L /etc/shadow ] || [ ! -f /etc/shadow ]; then
    printf 'root:%s\\n' "$hash" | chpasswd -e >/dev/null
    return
  fi
  rm -rf /etc/shadow.berth
  cp -p /etc/shadow /etc/shadow.berth && with_hash </etc/shadow >/etc/shadow.berth &&
    mv -f /etc/shadow.berth /etc/shadow
}

hosts="127.0.0.1 localhost\${nl}127.0.1.1 $host
::1 localhost ip6-localhost ip6-loopback
ff02::1 ip6-allnodes
ff02::2 ip6-allrouters"
servers=
for address in $resolvers; do servers="\${servers:+$servers$nl}nameserver $address"; done

failed=
replace /etc/hostname "$host" || failed="$failed hostname"
replace /etc/hosts "$hosts" || failed="$failed hosts"
[ -z "$servers" ] || replace /etc/resolv.conf "$servers" || failed="$failed resolv.conf"
if [ -n "$key" ]; then
  (umask 077; real_directory /root/.ssh && replace /root/.ssh/authorized_keys "\${key#=}") ||
    failed="$failed authorized_keys"
fi
[ -z "$hash" ] || set_hash || failed="$failed password"
# Last, so that a booting systemd that read the old file has set its name by now; mostly it is right already.
read -r now </proc/sys/kernel/hostname
[ "$now" = "$host" ] || hostname "$host" || failed="$failed sethostname"
sync /etc/shadow /etc/hostname /etc/hosts /etc/resolv.conf /root/.ssh/authorized_keys </dev/null >/dev/null 2>&1
[ -z "$failed" ] || { echo "could not set:$failed" >&2; exit 91; }
`
