import { chmod, mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { replaceFile } from './replace-file.js'
import type { LxcPaths } from './paths.js'

/**
 * Run by lxc, as root on the host, once a guest has ended and its groups and interface are gone. It leaves
 * an empty file with the guest's name for the agent, whether that runs or not. A failing hook would make
 * lxc give up a guest's own reboot, so it never fails; it keeps the log of a guest that reboots for ever
 * from growing.
 */
const stoppedHook = `#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
if [ "$LXC_TARGET" = reboot ]; then
  log="\${LXC_CONFIG_FILE%/*}/log"
  if [ -n "$(find "$log" -size +64k 2>/dev/null)" ]; then : >"$log"; fi
else
  : >"$1/$LXC_NAME"
fi
exit 0
`

/**
 * lxc's own list (common.seccomp) and what an unprivileged guest has no need of: bpf, perf, userfaultfd
 * and io_uring are where most kernel holes were; keyrings are not namespaced (ENOSYS, as systemd-nspawn
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
`

/**
 * Directories, hook and seccomp profile; replaces what an older version wrote. lxc insists that a guest's
 * root can pass (not list) all directories down to the guests', so the state directory lets everyone pass:
 * what is secret in it is so by its own mode.
 */
export async function ensureSupportFiles(paths: LxcPaths): Promise<void> {
  await mkdir(paths.lxcPath, { recursive: true, mode: 0o711 })
  await chmod(dirname(paths.lxcPath), 0o711)
  await chmod(paths.lxcPath, 0o711)
  await mkdir(paths.support, { recursive: true, mode: 0o700 })
  await mkdir(paths.marks, { recursive: true, mode: 0o700 })
  await replaceFile(paths.stoppedHook, stoppedHook, 0o700)
  await replaceFile(paths.seccompProfile, seccompProfile, 0o600)
}
