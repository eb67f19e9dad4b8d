/** Calls that are closed to guests unless the operator opens them (`lxc.allow`). */
export type OpenCalls = 'packet-rings' | 'sockets-32bit'

const errno = { EPERM: 1, ENOTTY: 25, ENOSYS: 38, ENOPROTOOPT: 92, EAFNOSUPPORT: 97 } as const

/**
 * What an unprivileged guest has no need of: bpf, perf, userfaultfd and io_uring are where most kernel holes were;
 * keyrings are not namespaced (ENOSYS, as systemd-nspawn and Proxmox answer: systemd takes EPERM as fatal in places).
 * The first six are lxc's own list (common.seccomp).
 */
const closed: Readonly<Record<string, number>> = {
  kexec_load: errno.EPERM,
  kexec_file_load: errno.EPERM,
  open_by_handle_at: errno.EPERM,
  init_module: errno.EPERM,
  finit_module: errno.EPERM,
  delete_module: errno.EPERM,
  bpf: errno.EPERM,
  perf_event_open: errno.EPERM,
  userfaultfd: errno.EPERM,
  io_uring_setup: errno.ENOSYS,
  io_uring_enter: errno.ENOSYS,
  io_uring_register: errno.ENOSYS,
  add_key: errno.ENOSYS,
  request_key: errno.ENOSYS,
  keyctl: errno.ENOSYS,
}

/**
 * BTRFS_IOC_SNAP_CREATE, SUBVOL_CREATE and their second versions (linux/btrfs.h). A subvolume made inside the
 * guest's own has no bound: root in the guest would write past its disk's size. ENOTTY: what a file system without
 * subvolumes says.
 */
const subvolumeRequests = [0x50009401, 0x5000940e, 0x50009417, 0x50009418]

/** AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET (DHCP clients, arping); see decision 80. */
const openFamilies = new Set([1, 2, 10, 16, 17])
/** Past the last that the kernel has (AF_MAX is 46); it refuses the others itself. */
const families = Array.from({ length: 64 }, (_, family) => family)

/** SOL_PACKET, and PACKET_RX_RING and PACKET_TX_RING below it: any amount of memory that nobody is charged. */
const packetLevel = 263
const packetRings = [5, 13]

/** Of int arguments the kernel takes the low half alone, and so do these comparisons. */
function equal(argument: number, value: number): string {
  return `[${argument},0x${value.toString(16)},SCMP_CMP_MASKED_EQ,0xffffffff]`
}

/** A guest's seccomp profile in lxc's format (version 2), for all calling conventions of the processor. */
export function planSeccomp(allowed: readonly OpenCalls[]): string {
  const rules = [
    ...Object.entries(closed).map(([call, code]) => `${call} errno ${code}`),
    ...subvolumeRequests.map((request) => `ioctl errno ${errno.ENOTTY} ${equal(1, request)}`),
    ...['socket', 'socketpair'].flatMap(planFamilies),
    ...(allowed.includes('packet-rings') ? [] : planRings()),
    // 32-bit x86: families and options are in memory, where no filter sees them. The calls above exist there, too.
    ...(allowed.includes('sockets-32bit') ? [] : [`socketcall errno ${errno.ENOSYS}`]),
  ]
  return `2\ndenylist\nreject_force_umount\n[all]\n${rules.join('\n')}\n`
}

function planFamilies(call: string): string[] {
  return families
    .filter((family) => !openFamilies.has(family))
    .map((family) => `${call} errno ${errno.EAFNOSUPPORT} ${equal(0, family)}`)
}

function planRings(): string[] {
  return packetRings.map(
    (option) => `setsockopt errno ${errno.ENOPROTOOPT} ${equal(1, packetLevel)} ${equal(2, option)}`,
  )
}
