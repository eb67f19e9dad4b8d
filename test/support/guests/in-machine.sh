#!/bin/sh
# Runs a program as root inside a virtual machine by SSH, as nsenter does for a container:
# in-machine.sh PASSWORD ADDRESS PORT PROGRAM ARGUMENT...
password=$1 address=$2 port=$3
shift 3
command=
for word; do
  command="$command '$(printf %s "$word" | sed "s/'/'\\\\''/g")'"
done
exec sshpass -p "$password" ssh -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \
  -o PreferredAuthentications=password -o NumberOfPasswordPrompts=1 -o ConnectTimeout=5 -o ServerAliveInterval=5 \
  -p "$port" "root@$address" "exec $command"
