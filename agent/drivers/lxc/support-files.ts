import { chmod, mkdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { ensureDeviceNodes } from '../../host/guest/guest-devices.js'
import { confinementOf, namespaceArguments } from '../../host/guest/guest-namespace.js'
import { perlProgram } from '../../host/process/perl-program.js'
import { namespaceBounds, subgroups } from './plan-bounds.js'
import { planSocketFilter, type OpenCalls } from './plan-socket-filter.js'
import { replaceFile } from '../common/replace-file.js'
import type { LxcPaths } from './paths.js'

/**
 * Hook that sets the guest's IPv6 addresses. Each argument is an ip(8) command for the guest's network namespace. lxc
 * runs the hook as root on the host, before the guest's first process. If the hook fails, the guest does not start.
 */
const addressesHook = `#!/bin/sh
# command...
PATH=/usr/sbin:/usr/bin:/sbin:/bin
# IPv6 was switched off since the addresses were given.
test -e /proc/net/if_inet6 || exit 0
printf '%s\\n' "$@" | nsenter --net="/proc/$LXC_PID/ns/net" ip -batch -
`

/**
 * Hook that limits number and depth of a guest's cgroups (v2), because lxc 5.0.2 does so only on hosts without v1. It
 * also removes the write access that lxc gave the guest to cgroups of other hierarchies. The hook runs as root on the
 * host, before the guest's first process. If the hook fails, the guest does not start.
 */
const groupsHook = `#!/bin/sh
# v2-group path-to-lock...
set -e
echo ${subgroups.most} >"$1/cgroup.max.descendants"
echo ${subgroups.depth} >"$1/cgroup.max.depth"
shift
exec /bin/chmod g-w "$@"
`

/**
 * Hook that lxc runs as root on the host after a guest has ended and its groups and interface are removed. If the guest
 * powered off, the hook leaves a mark file for the agent: an empty file with the guest's name. If the guest reboots,
 * the hook starts a process that will start the guest again. The hook then fails, so that lxc stops. lxc 5.0.2 must not
 * reboot a guest itself: the rebooted guest would lack lxc.rootfs.options, and with them idmap and nodev.
 */
const stoppedHook = `#!/bin/sh
# marks-directory lxc-path name
PATH=/usr/sbin:/usr/bin:/sbin:/bin
if [ "$LXC_TARGET" = reboot ]; then
  setsid "\${0%/*}/restart" "$1" "$2" "$3" </dev/null >/dev/null 2>&1 &
  exit 1
fi
: >"$1/$3"
exit 0
`

/**
 * Script that starts a rebooting guest again. The guest's limits do not cover the processor time of a start. The script
 * therefore slows down guests that reboot again and again: it waits if the last reboot was a few seconds ago. The first
 * attempts can fail while the old monitor exists.
 */
const restart = (namespace: readonly string[]): string => `#!/bin/sh
# marks-directory lxc-path name
PATH=/usr/sbin:/usr/bin:/sbin:/bin
last="$1/$3.rebooted"
if [ -n "$(find "$last" -newermt '10 seconds ago' 2>/dev/null)" ]; then sleep 5; fi
: >"$last"
for attempt in 1 2 3 4 5 6 7 8 9 10; do
  : >"$2/$3/log"
  # Without newuidmap(1): see the agent's host/lxc.ts.
  if PATH=/usr/sbin:/sbin /usr/bin/perl "\${0%/*}/start-guest.pl" "$2" "$3" "$2/$3/log" ${namespace.join(' ')}; then exit 0; fi
  sleep 0.2
done
: >"$1/$3"
`

/**
 * Rules against BTRFS_IOC_SNAP_CREATE, SUBVOL_CREATE and their second versions (linux/btrfs.h). A subvolume that the
 * guest's root creates would not count towards the guest's disk limit. Only the low half of the argument is compared,
 * as the kernel does. The calls return ENOTTY, the error of a filesystem without subvolumes.
 */
const subvolumeCalls = ['0x50009401', '0x5000940e', '0x50009417', '0x50009418']
  .map((request) => `ioctl errno 25 [1,${request},SCMP_CMP_MASKED_EQ,0xffffffff]\n`)
  .join('')

/**
 * System calls that guests cannot use: lxc's own list (common.seccomp) and calls that an unprivileged guest does not
 * need. bpf, perf, userfaultfd and io_uring had most kernel vulnerabilities. Keyrings have no namespaces; their calls
 * return ENOSYS, as in systemd-nspawn and Proxmox, because systemd treats EPERM as fatal. For sockets, see
 * plan-socket-filter.ts.
 */
const seccompProfile = `2
denylist
reject_force_umount
[all]
kexec_load errno 1
kexec_file_load errno 1
open_by_handle_at errno 1
init_module errno 1
finit_module errno 1
delete_module errno 1
bpf errno 1
perf_event_open errno 1
userfaultfd errno 1
io_uring_setup errno 38
io_uring_enter errno 38
io_uring_register errno 38
add_key errno 38
request_key errno 38
keyctl errno 38
${subvolumeCalls}`

/**
 * Returns the arguments of start-guest.pl that set up guests' namespaces. The arguments contain no characters that are
 * special in a shell.
 */
export function namespaceFor(allowed: readonly OpenCalls[]): string[] {
  return namespaceArguments(namespaceBounds, planSocketFilter(allowed))
}

/** Returns a hash of the namespace limits and system call filter of new guests. A guest's monitor stores the hash. */
export function confinementFor(allowed: readonly OpenCalls[]): string {
  return confinementOf(namespaceBounds, planSocketFilter(allowed))
}

/**
 * Writes the directories, hooks and seccomp profile, and replaces those of older versions. lxc requires that a guest's
 * root can traverse (but not list) all directories above the guest's directory. The state directory can therefore be
 * traversed by everyone. Secrets in it are protected by their own modes.
 */
export async function ensureSupportFiles(paths: LxcPaths, allowed: readonly OpenCalls[]): Promise<void> {
  await mkdir(paths.lxcPath, { recursive: true, mode: 0o711 })
  await chmod(dirname(paths.lxcPath), 0o711)
  await chmod(paths.lxcPath, 0o711)
  // A guest's root user bind-mounts `cmdline` from this directory, which must therefore be traversable. The modes of
  // the other files in this directory protect these files.
  await mkdir(paths.support, { recursive: true, mode: 0o711 })
  await chmod(paths.support, 0o711)
  await mkdir(paths.mountPoint, { recursive: true, mode: 0o711 })
  await mkdir(paths.marks, { recursive: true, mode: 0o700 })
  await ensureDeviceNodes(paths.devices)
  await replaceFile(paths.addressesHook, addressesHook, 0o700)
  await replaceFile(paths.groupsHook, groupsHook, 0o700)
  await copyPerl('common', join(paths.support, 'common.pl'))
  // lxc runs this hook as root on the host, before the first process of a rescue system.
  await copyPerl('mount-in-guest', paths.mendHook)
  await replaceFile(paths.stoppedHook, stoppedHook, 0o700)
  await copyPerl('start-guest', join(paths.support, 'start-guest.pl'))
  await replaceFile(join(paths.support, 'restart'), restart(namespaceFor(allowed)), 0o700)
  await replaceFile(paths.seccompProfile, seccompProfile, 0o600)
  await replaceFile(paths.commandLine, '\n', 0o644)
}

/** Copies a Perl program, because an update of the agent replaces the original while guests need it. */
async function copyPerl(name: string, path: string): Promise<void> {
  await replaceFile(path, await readFile(perlProgram(name), 'utf8'), 0o700)
}
