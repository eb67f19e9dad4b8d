import { planSysctls } from '../drivers/lxc/plan-sysctls.js'
import type { SysctlChange } from '../host/sysctl-change.js'

/** What agents of this host changed of its kernel's settings, so that the last one to go can put it back. */
export interface KernelRecord {
  /** The kernel's boot id: after a boot the values are the host's own again. */
  readonly boot: string
  /** State directories of the agents that need the settings. */
  readonly users: readonly string[]
  /** Values from before, by path below /proc/sys, in the order of their first change. */
  readonly before: Readonly<Record<string, number>>
  /** Values that an agent wrote, of the same paths. */
  readonly set: Readonly<Record<string, number>>
}

/** The record with one more change. What an agent wrote itself is nobody's value from before. */
export function planChange(record: KernelRecord, { path, before, value }: SysctlChange): KernelRecord {
  const isKnown = record.set[path] === before
  return {
    ...record,
    before: isKnown ? record.before : { ...record.before, [path]: before },
    set: { ...record.set, [path]: value },
  }
}

/** What of an earlier boot still counts: who needs the settings. */
export function planBoot(record: KernelRecord, boot: string): KernelRecord {
  return record.boot === boot ? record : { boot, users: record.users, before: {}, set: {} }
}

export function planUser(record: KernelRecord, stateDir: string): KernelRecord {
  return { ...record, users: [...new Set([...record.users, stateDir])] }
}

/** The host's limits that are about to be raised; all of them, for values nobody has read. */
export function planLimits(has: ReadonlyMap<string, number>): SysctlChange[] {
  const dotted = new Map([...has].map(([path, value]) => [path.replaceAll('/', '.'), value]))
  return planSysctls(dotted).map(({ name, value }) => {
    const path = name.replaceAll('.', '/')
    return { path, before: has.get(path) ?? value, value }
  })
}

/**
 * What to write back: values that are still those an agent set. The last first: interfaces believe routers only
 * while the host does not forward, or are told to in spite of it.
 */
export function planRestore(
  { before, set }: KernelRecord,
  has: ReadonlyMap<string, number>,
): { path: string; value: number }[] {
  return Object.entries(before)
    .filter(([path, value]) => has.get(path) === set[path] && has.get(path) !== value)
    .map(([path, value]) => ({ path, value }))
    .reverse()
}
