import type { FleetHostUsage, Guest, Host, Task } from '../../api/types.ts'
import type { Key } from '../../i18n/text.svelte.ts'
import type { Tone } from '../../ui/tone.ts'
import { percentOf } from './capacity.ts'
import { warningKey } from './hidden-warnings.ts'

/** A problem for the administrator: a sentence, and the page on which the administrator can act. */
export interface Attention {
  readonly tone: Tone
  readonly text: Key
  readonly values: Readonly<Record<string, string | number>>
  /** Names that replace the placeholder `names` of the sentence. Long lists are shortened. */
  readonly names?: readonly string[]
  readonly href: string
  /** Keys of the warnings that the user can hide. Absent: the item cannot be hidden. */
  readonly warnings?: readonly string[]
}

/** Data of the fleet. Undefined: the data is not known, so no problem is derived from it. */
export interface FleetFacts {
  readonly hosts: readonly Host[] | undefined
  readonly guests: readonly Guest[] | undefined
  readonly usages: readonly FleetHostUsage[] | undefined
  /** Tasks that failed, newest first. */
  readonly failed: readonly Task[] | undefined
  /** Number of guests with active alerts. */
  readonly alerted: number | undefined
  readonly nameOf: (hostId: string) => string
  /** Translates a warning of a host. */
  readonly warningText: (warning: string) => string
  /** True if the user has hidden the warning with this key. */
  readonly isHidden: (key: string) => boolean
  readonly formatTime: (time: string) => string
  readonly formatPercent: (percent: number) => string
  /** The current time and the time a day ago. They have the form of the API's times, which can be compared as text. */
  readonly nowText: string
  readonly dayAgoText: string
}

/** If more hosts than this number have the same problem, one sentence describes them all. */
const mostSingle = 3

/** Returns what needs attention, the most urgent first. */
export function planAttention(facts: FleetFacts): Attention[] {
  return [
    ...planOffline(facts),
    ...planErrors(facts),
    ...planFailures(facts),
    ...planAlerts(facts),
    ...planDisks(facts),
    ...planPools(facts),
    ...planWarnings(facts),
    ...planPolicy(facts),
  ]
}

function planOffline({ hosts = [], formatTime }: FleetFacts): Attention[] {
  const offline = hosts.filter(({ status }) => status === 'offline')
  if (offline.length <= mostSingle)
    return offline.map(({ id, name, last_seen: seen, containers }) => ({
      tone: 'bad',
      text: 'attention.hostOffline',
      values: { host: name, time: formatTime(seen), count: containers },
      href: `#/hosts/${id}`,
    }))
  const count = offline.reduce((sum, { containers }) => sum + containers, 0)
  return [{ tone: 'bad', text: 'attention.hostsOffline', values: { hosts: offline.length, count }, href: '#/hosts' }]
}

function planErrors({ guests = [] }: FleetFacts): Attention[] {
  const found = guests.filter(({ status }) => status === 'error')
  const names = found.map(({ name }) => name)
  if (found.length === 0) return []
  const [only] = found
  const single = found.length === 1 && only
  return [
    {
      tone: 'bad',
      text: single ? 'attention.guestError' : 'attention.guestErrors',
      values: { count: found.length },
      names,
      href: single ? `#/containers/${only.id}` : '#/containers?status=error',
    },
  ]
}

function planFailures({ failed = [], dayAgoText }: FleetFacts): Attention[] {
  const recent = failed.filter(({ finished_at: at, created_at: begun }) => (at || begun) >= dayAgoText)
  const isBackup = ({ action }: Task): boolean => action === 'backup' || action === 'backup-create'
  const nameOf = ({ container_name: name, image_id: image, action }: Task): string => name || image || action
  const backups = unique(recent.filter(isBackup).map(nameOf))
  const others = recent.filter((task) => !isBackup(task))
  const many = (names: readonly string[], count: number, one: Key, several: Key): Attention[] =>
    count === 0
      ? []
      : [
          {
            tone: 'bad',
            text: count === 1 ? one : several,
            values: { count },
            names,
            href: '#/tasks?status=failed',
          },
        ]
  return [
    ...many(backups, backups.length, 'attention.backupFailed', 'attention.backupsFailed'),
    ...many(unique(others.map(nameOf)), others.length, 'attention.taskFailed', 'attention.tasksFailed'),
  ]
}

function planAlerts({ alerted = 0 }: FleetFacts): Attention[] {
  if (alerted === 0) return []
  return [{ tone: 'bad', text: 'attention.alerts', values: { count: alerted }, href: '#/security' }]
}

/** A disk needs attention if it will be full within `soonDays`, or if at least `highPercent` of it is used. */
const [soonDays, highPercent] = [14, 90]

function planDisks({ usages = [], nameOf, formatPercent }: FleetFacts): readonly Attention[] {
  const found = usages.flatMap((host): Attention[] => {
    const name = nameOf(host.host_id)
    const [days, percent] = [host.disk_full_in_days, percentOf(host, 'disk') ?? 0]
    const common = { tone: 'warn', names: [name], href: `#/hosts/${host.host_id}` } as const
    if (days !== null && days <= soonDays)
      return [{ ...common, text: 'attention.diskFull', values: { host: name, count: days } }]
    if (percent < highPercent) return []
    return [{ ...common, text: 'attention.diskUsed', values: { host: name, percent: formatPercent(percent) } }]
  })
  return grouped(found, 'attention.disksFull', '#/hosts')
}

/** A pool needs attention if less than this fraction of its addresses or ports is free. */
const lowShare = 0.1

function planPools({ usages = [], nameOf }: FleetFacts): readonly Attention[] {
  const found = usages.flatMap(({ host_id: id, ports, public_ipv4: ipv4 }) => [
    ...planPool(nameOf(id), ports, ['attention.portsLow', 'attention.portsNone']),
    ...planPool(nameOf(id), ipv4, ['attention.ipv4Low', 'attention.ipv4None']),
  ])
  return grouped(found, 'attention.poolsLow', '#/routing')
}

function planPool(host: string, pool: FleetHostUsage['ports'], [low, none]: readonly [Key, Key]): Attention[] {
  if (!pool || pool.total === 0) return []
  const free = Math.max(0, pool.total - pool.used)
  if (free >= pool.total * lowShare) return []
  const values = { host, free, total: pool.total }
  return [{ tone: 'warn', text: free === 0 ? none : low, values, names: [host], href: '#/routing' }]
}

function planWarnings({ hosts = [], warningText, isHidden }: FleetFacts): readonly Attention[] {
  const found = hosts.flatMap(({ id, name, warnings }) =>
    warnings.map((warning): Attention => ({
      tone: 'warn',
      text: 'attention.warning',
      values: { host: name, text: warningText(warning) },
      names: [name],
      href: `#/hosts/${id}`,
      warnings: [warningKey(id, warning)],
    })),
  )
  const shown = found.filter(({ warnings = [] }) => !warnings.some(isHidden))
  return grouped(shown, 'attention.warnings', '#/hosts').map((item) =>
    shown.includes(item) ? item : { ...item, warnings: shown.flatMap(({ warnings = [] }) => warnings) },
  )
}

/** Returns the keys of the present warnings that the user has hidden. */
export function findHidden({ hosts = [], isHidden }: Pick<FleetFacts, 'hosts' | 'isHidden'>): string[] {
  return hosts.flatMap(({ id, warnings }) => warnings.map((warning) => warningKey(id, warning))).filter(isHidden)
}

function planPolicy({ guests = [], nowText }: FleetFacts): Attention[] {
  const expired = guests.filter(({ expires_at: at }) => at !== '' && at <= nowText).length
  const suspended = guests.filter(({ policy }) => policy === 'suspended').length
  const item = (text: Key, count: number, flag: string): Attention[] =>
    count === 0 ? [] : [{ tone: 'off', text, values: { count }, href: `#/containers?flag=${flag}` }]
  return [...item('attention.expired', expired, 'expired'), ...item('attention.suspended', suspended, 'suspended')]
}

/** If there are more than `mostSingle` items of several hosts, replaces them by one item that lists the hosts. */
function grouped(found: readonly Attention[], text: Key, href: string): readonly Attention[] {
  const names = unique(found.flatMap(({ names: hosts = [] }) => hosts))
  if (found.length <= mostSingle || names.length < 2) return found
  return [{ tone: 'warn', text, values: { count: names.length }, names, href }]
}

function unique(names: readonly string[]): string[] {
  return [...new Set(names)]
}
