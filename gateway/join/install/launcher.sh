#!/bin/sh
# Installs the Berth agent on this machine and joins it to the gateway that created the token:
#   curl … https://GATEWAY/install | sh -s -- TOKEN
# Other users of the machine can read the arguments of programs, but not their environment. The actual script, which runs
# much longer, therefore gets the token in its environment.
set -eu

script=$(mktemp)
cat >"$script" <<'END OF THE INSTALLATION SCRIPT'
@SCRIPT@
END OF THE INSTALLATION SCRIPT
exec 8<"$script"
rm "$script"

case ${1:-} in
  berth_jt_*) BERTH_JOIN_TOKEN=$1 exec sh /dev/fd/8 ;;
esac
exec sh /dev/fd/8 "$@"
