export interface Sysctl {
  readonly name: string
  readonly value: number
  readonly reason: string
}

/** The `reason` of settings that limit all guests together. Each guest also has its own limits (plan-bounds.ts). */
const ofAllGuests = 'counted for all guests together'

const wanted: readonly Sysctl[] = [
  { name: 'fs.inotify.max_user_instances', value: 134_217_728, reason: ofAllGuests },
  { name: 'fs.inotify.max_user_watches', value: 2_147_483_647, reason: ofAllGuests },
  { name: 'fs.fanotify.max_user_groups', value: 2_097_152, reason: ofAllGuests },
  { name: 'fs.fanotify.max_user_marks', value: 2_147_483_647, reason: ofAllGuests },
  ...['cgroup', 'ipc', 'mnt', 'net', 'pid', 'time', 'user', 'uts'].map((kind) => ({
    name: `user.max_${kind}_namespaces`,
    value: 16_777_216,
    reason: ofAllGuests,
  })),
  {
    name: 'fs.inotify.max_queued_events',
    value: 1_048_576,
    reason: 'a higher limit, so that events of a busy guest are not lost',
  },
  { name: 'kernel.keys.maxkeys', value: 2000, reason: 'each login and each service needs a session keyring' },
  { name: 'kernel.keys.maxbytes', value: 2_000_000, reason: 'same reason as for kernel.keys.maxkeys' },
  {
    name: 'kernel.pty.max',
    value: 1_048_576,
    reason: 'the limit is host-wide; this is the maximum, and each terminal only costs memory',
  },
  {
    name: 'kernel.pid_max',
    value: 4_194_304,
    reason: 'the limit is host-wide, and a guest may have over a thousand tasks',
  },
  { name: 'kernel.threads-max', value: 4_194_304, reason: 'same reason as for kernel.pid_max' },
  {
    name: 'fs.file-max',
    value: 2 ** 50,
    reason: 'the limit is host-wide; the memory of a guest already limits its open files',
  },
  {
    name: 'net.ipv4.neigh.default.gc_thresh1',
    value: 8192,
    reason: 'neighbours of all network namespaces share one table',
  },
  { name: 'net.ipv4.neigh.default.gc_thresh2', value: 32_768, reason: 'same reason as for gc_thresh1' },
  {
    name: 'net.ipv4.neigh.default.gc_thresh3',
    value: 65_536,
    reason: 'same reason as for gc_thresh1; when the table is full, new peers cannot be reached',
  },
  { name: 'net.ipv6.neigh.default.gc_thresh1', value: 8192, reason: 'same reason as for net.ipv4.neigh.default' },
  { name: 'net.ipv6.neigh.default.gc_thresh2', value: 32_768, reason: 'same reason as for net.ipv4.neigh.default' },
  { name: 'net.ipv6.neigh.default.gc_thresh3', value: 65_536, reason: 'same reason as for net.ipv4.neigh.default' },
  {
    name: 'fs.aio-max-nr',
    value: 2 ** 36,
    reason:
      'the limit is host-wide; each event takes 64 bytes of a guest’s memory, which already limits the number of events',
  },
  { name: 'vm.max_map_count', value: 262_144, reason: 'search engines refuse to start with a lower value' },
]

/**
 * Plans which kernel settings to raise: those in `wanted` whose value in `has` is lower or missing. A test that started
 * 100 guests with systemd at once showed the needed values, which agree with LXD's list for production hosts.
 */
export function planSysctls(has: ReadonlyMap<string, number>): Sysctl[] {
  return wanted.filter(({ name, value }) => (has.get(name) ?? -1) < value)
}
