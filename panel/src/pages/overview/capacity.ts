import type { FleetHostUsage } from '../../api/types.ts'

/** One resource of the fleet. Units: vCPU, MiB or GB. */
export interface Capacity {
  /** Used part of the hosts whose usage is known, in percent. Undefined: no usage is known. */
  readonly usedPercent: number | undefined
  readonly used: number | undefined
  readonly committed: number
  readonly total: number
  readonly committedPercent: number | undefined
}

const resources = {
  cpu: {
    used: ({ cpu_usage_pct: percent, cpu_cores: cores }) => (percent === null ? null : (percent / 100) * cores),
    committed: ({ vcpu_allocated: vcpu }) => vcpu,
    total: ({ cpu_cores: cores }) => cores,
  },
  memory: {
    used: ({ ram_used_mb: used }) => used,
    committed: ({ ram_allocated_mb: allocated }) => allocated,
    total: ({ ram_total_mb: total }) => total,
  },
  disk: {
    used: ({ disk_used_gb: used }) => used,
    committed: ({ disk_allocated_gb: allocated }) => allocated,
    total: ({ disk_total_gb: total }) => total,
  },
} satisfies Record<string, Record<'used' | 'committed' | 'total', (host: FleetHostUsage) => number | null>>

export type Resource = keyof typeof resources

/** Sums a resource of all hosts. The usage omits hosts with unknown usage, instead of counting them as unused. */
export function sumCapacity(hosts: readonly FleetHostUsage[], resource: Resource): Capacity {
  const read = resources[resource]
  const sum = (list: readonly FleetHostUsage[], value: (host: FleetHostUsage) => number | null): number =>
    list.reduce((all, host) => all + (value(host) ?? 0), 0)
  const measured = hosts.filter((host) => read.used(host) !== null)
  const [used, measuredTotal] = [sum(measured, read.used), sum(measured, read.total)]
  const [committed, total] = [sum(hosts, read.committed), sum(hosts, read.total)]
  return {
    used: measured.length === 0 ? undefined : used,
    usedPercent: measuredTotal === 0 ? undefined : (used / measuredTotal) * 100,
    committed,
    total,
    committedPercent: total === 0 ? undefined : (committed / total) * 100,
  }
}

/** Returns how much of a resource a host uses, in percent. Undefined: not known. */
export function percentOf(host: FleetHostUsage, resource: Resource): number | undefined {
  return sumCapacity([host], resource).usedPercent
}

/** Returns the hosts, highest load first, unknown loads last. A host's load is the usage of its fullest resource. */
export function byLoad(hosts: readonly FleetHostUsage[]): FleetHostUsage[] {
  const loadOf = (host: FleetHostUsage): number =>
    Math.max(...(['cpu', 'memory', 'disk'] as const).map((resource) => percentOf(host, resource) ?? -1))
  const loads = new Map(hosts.map((host) => [host, loadOf(host)]))
  return [...hosts].sort((a, b) => loads.get(b)! - loads.get(a)!)
}

/** Returns the host whose disk will be full first. */
export function firstFull(hosts: readonly FleetHostUsage[]): FleetHostUsage | undefined {
  const daysOf = ({ disk_full_in_days: days }: FleetHostUsage): number => days ?? Infinity
  const [first] = [...hosts].sort((a, b) => daysOf(a) - daysOf(b))
  return first?.disk_full_in_days === null ? undefined : first
}
