export interface Sysctl {
  readonly name: string
  readonly value: number
  /** Reason why guests need the value. */
  readonly reason: string
}

/** Reason for settings that limit all guests together. Each guest also has its own limits (plan-bounds.ts). */
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
  { name: 'fs.inotify.max_queued_events', value: 1_048_576, reason: 'events of a busy guest are not lost' },
  { name: 'kernel.keys.maxkeys', value: 2000, reason: 'a session keyring for each login and service' },
  { name: 'kernel.keys.maxbytes', value: 2_000_000, reason: 'as maxkeys' },
  {
    name: 'kernel.pty.max',
    value: 1_048_576,
    reason: 'host-wide, the most there are; each has a cost in memory',
  },
  { name: 'kernel.pid_max', value: 4_194_304, reason: 'host-wide; a guest may have over a thousand tasks' },
  { name: 'kernel.threads-max', value: 4_194_304, reason: 'host-wide, as pid_max' },
  { name: 'fs.file-max', value: 2 ** 50, reason: 'host-wide; open files are charged to a guest’s memory' },
  {
    name: 'net.ipv4.neigh.default.gc_thresh1',
    value: 8192,
    reason: 'neighbours of all network namespaces share one table',
  },
  { name: 'net.ipv4.neigh.default.gc_thresh2', value: 32_768, reason: 'as gc_thresh1' },
  { name: 'net.ipv4.neigh.default.gc_thresh3', value: 65_536, reason: 'as gc_thresh1; full: no new peers' },
  { name: 'net.ipv6.neigh.default.gc_thresh1', value: 8192, reason: 'as for IPv4' },
  { name: 'net.ipv6.neigh.default.gc_thresh2', value: 32_768, reason: 'as for IPv4' },
  { name: 'net.ipv6.neigh.default.gc_thresh3', value: 65_536, reason: 'as for IPv4' },
  {
    name: 'fs.aio-max-nr',
    value: 2 ** 36,
    reason: 'host-wide; each event has 64 bytes that are charged to a guest’s memory, which bounds them',
  },
  { name: 'vm.max_map_count', value: 262_144, reason: 'search engines refuse to start below' },
]

/**
 * Plans which values to raise. No value is lowered, and values that `has` lacks are planned, too. The list was found by
 * starting 100 guests with systemd at once; it agrees with LXD's list for production hosts.
 */
export function planSysctls(has: ReadonlyMap<string, number>): Sysctl[] {
  return wanted.filter(({ name, value }) => (has.get(name) ?? -1) < value)
}
