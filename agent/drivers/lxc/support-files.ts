import { chmod, mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { confinementOf, guestStarter } from '../../host/guest-namespace.js'
import { namespaceBounds, subgroups } from './plan-bounds.js'
import { planSocketFilter, type OpenCalls } from './plan-socket-filter.js'
import { replaceFile } from './replace-file.js'
import type { LxcPaths } from './paths.js'

/**
 * Run by lxc, as root on the host, once the guest's interface is there and before its first process runs: each argument
 * is a command of ip(8) in the guest's network namespace. Where one fails the guest does not start.
 */
const addressesHook = `#!/bin/sh
# command...
PATH=/usr/sbin:/usr/bin:/sbin:/bin
# IPv6 was switched off since the addresses were given.
test -e /proc/net/if_inet6 || exit 0
printf '%s\\n' "$@" | nsenter --net="/proc/$LXC_PID/ns/net" ip -batch -
`

/**
 * Run by lxc, as root on the host, before the guest's first process: bounds the groups that it may make in the v2 tree,
 * which lxc 5.0.2 does on hosts without v1 alone, and takes back what lxc gives it of others. Where it fails the guest
 * does not start.
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
 * Run by lxc, as root on the host, once a guest has ended and its groups and interface are gone. A guest that
 * powered off gets a mark, an empty file with its name, for the agent, whether that runs or not.
 *
 * A guest that reboots is started anew by a process of its own, and lxc told not to (a failing hook makes it
 * stop): lxc 5.0.2 forgets lxc.rootfs.options when it reboots a guest, and with them idmap and nodev.
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
 * Starts a guest again, as the agent does. A guest that reboots all the time waits longer: each start costs
 * the host processor time that no limit of the guest's counts. The first attempts may meet the old monitor.
 */
const restart = `#!/bin/sh
# marks-directory lxc-path name
PATH=/usr/sbin:/usr/bin:/sbin:/bin
last="$1/$3.rebooted"
if [ -n "$(find "$last" -newermt '10 seconds ago' 2>/dev/null)" ]; then sleep 5; fi
: >"$last"
for attempt in 1 2 3 4 5 6 7 8 9 10; do
  : >"$2/$3/log"
  # Without newuidmap(1): see the agent's host/lxc.ts.
  if PATH=/usr/sbin:/sbin /usr/bin/perl "\${0%/*}/start" "$2" "$3" "$2/$3/log"; then exit 0; fi
  sleep 0.2
done
: >"$1/$3"
`

/**
 * BTRFS_IOC_SNAP_CREATE, SUBVOL_CREATE and their second versions (linux/btrfs.h). A subvolume made inside the
 * guest's own has no bound: root in the guest would write past its disk's size. Only the low half of the
 * argument counts for the kernel, so only that is compared. ENOTTY: what a file system without subvolumes says.
 */
const subvolumeCalls = ['0x50009401', '0x5000940e', '0x50009417', '0x50009418']
  .map((request) => `ioctl errno 25 [1,${request},SCMP_CMP_MASKED_EQ,0xffffffff]\n`)
  .join('')

/**
 * lxc's own list (common.seccomp) and what an unprivileged guest has no need of: bpf, perf, userfaultfd
 * and io_uring are where most kernel holes were (sockets: plan-socket-filter.ts); keyrings are not namespaced (ENOSYS, as systemd-nspawn
 * and Proxmox answer: systemd takes EPERM as fatal in places).
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

/** Perl code that becomes lxc-start; the agent runs it, and `restart`. */
export function starterProgram(allowed: readonly OpenCalls[]): string {
  return guestStarter(namespaceBounds, planSocketFilter(allowed))
}

/** What guests' monitors are known by that had this program at their start. */
export function confinementFor(allowed: readonly OpenCalls[]): string {
  return confinementOf(namespaceBounds, planSocketFilter(allowed))
}

/**
 * Directories, hooks and seccomp profile; replaces what an older version wrote. lxc insists that a guest's
 * root can pass (not list) all directories down to the guests', so the state directory lets everyone pass:
 * what is secret in it is so by its own mode.
 */
export async function ensureSupportFiles(paths: LxcPaths, allowed: readonly OpenCalls[]): Promise<void> {
  await mkdir(paths.lxcPath, { recursive: true, mode: 0o711 })
  await chmod(dirname(paths.lxcPath), 0o711)
  await chmod(paths.lxcPath, 0o711)
  // Guests' root users bind `cmdline` from there; the rest is closed by its own modes.
  await mkdir(paths.support, { recursive: true, mode: 0o711 })
  await chmod(paths.support, 0o711)
  await mkdir(paths.marks, { recursive: true, mode: 0o700 })
  await replaceFile(paths.addressesHook, addressesHook, 0o700)
  await replaceFile(paths.groupsHook, groupsHook, 0o700)
  await replaceFile(paths.stoppedHook, stoppedHook, 0o700)
  await replaceFile(join(paths.support, 'restart'), restart, 0o700)
  await replaceFile(join(paths.support, 'start'), starterProgram(allowed), 0o700)
  await replaceFile(paths.seccompProfile, seccompProfile, 0o600)
  await replaceFile(paths.commandLine, '\n', 0o644)
}
