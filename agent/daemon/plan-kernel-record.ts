import { planSysctls } from '../drivers/drivers.js'
import type { SysctlChange } from '../host/sysctl-change.js'

/** What agents of this machine changed of its kernel's settings, so that the last one to go can put it back. */
export interface KernelRecord {
  /** The kernel's boot id: after a boot the values are the host's own again. */
  readonly boot: string
  /** State directories of the agents that need the settings, each with its network namespace; 0: of an earlier boot. */
  readonly users: Readonly<Record<string, number>>
  /** Values from before, by key, in the order of their first change. */
  readonly before: Readonly<Record<string, number>>
  /** Values that an agent wrote, of the same keys. */
  readonly set: Readonly<Record<string, number>>
}

/** An agent, and the network namespace it is in. */
export interface KernelUser {
  readonly stateDir: string
  /** Inode number of the namespace, which no two have at a time. */
  readonly netns: number
}

/** The name of a setting, a path below /proc/sys, in the record: those of the network are their namespace's. */
function keyOf(path: string, netns: number): string {
  return path.startsWith('net/') ? `${netns}:${path}` : path
}

/** The record with one more change. What an agent wrote itself is nobody's value from before. */
export function planChange(
  record: KernelRecord,
  netns: number,
  { path, before, value }: SysctlChange,
): KernelRecord {
  const key = keyOf(path, netns)
  const isKnown = record.set[key] === before
  return {
    ...record,
    before: isKnown ? record.before : { ...record.before, [key]: before },
    set: { ...record.set, [key]: value },
  }
}

/** What of an earlier boot still counts: who needs the settings. Namespaces have other numbers now. */
export function planBoot(record: KernelRecord, boot: string): KernelRecord {
  if (record.boot === boot) return record
  return {
    boot,
    users: Object.fromEntries(Object.keys(record.users).map((user) => [user, 0])),
    before: {},
    set: {},
  }
}

export function planUser(record: KernelRecord, { stateDir, netns }: KernelUser): KernelRecord {
  return { ...record, users: { ...record.users, [stateDir]: netns } }
}

/** The host's limits that are about to be raised; all of them, for values nobody has read. */
export function planLimits(has: ReadonlyMap<string, number>): SysctlChange[] {
  const dotted = new Map([...has].map(([path, value]) => [path.replaceAll('/', '.'), value]))
  return planSysctls(dotted).map(({ name, value }) => {
    const path = name.replaceAll('.', '/')
    return { path, before: has.get(path) ?? value, value }
  })
}

interface Leave {
  /** What is left of the record; undefined: no agent is. */
  readonly record: KernelRecord | undefined
  /** What to write back, unless somebody else changed it since, the last first. */
  readonly restore: readonly SysctlChange[]
}

/**
 * An agent that goes: the settings of its network namespace are put back with the last agent there, the others with
 * the last of all. The last change first: interfaces believe routers only while the host does not forward, or are
 * told to in spite of it.
 * @param isThere whether the state directory of another agent still is
 */
export function planLeave(
  record: KernelRecord,
  { stateDir, netns }: KernelUser,
  isThere: (stateDir: string) => boolean,
): Leave {
  const users = Object.entries(record.users).filter(([user]) => user !== stateDir && isThere(user))
  const places = users.map(([, place]) => place)
  const isNeeded = (key: string): boolean => {
    const of = namespaceOf(key)
    return of === undefined ? places.length > 0 : places.includes(of) || places.includes(0)
  }
  const restore = Object.entries(record.before)
    .filter(([key]) => !isNeeded(key) && [undefined, netns].includes(namespaceOf(key)))
    .map(([key, before]) => ({ path: pathOf(key), before, value: record.set[key] ?? before }))
    .reverse()
  if (users.length === 0) return { record: undefined, restore }
  const [before, set] = [keep(record.before, isNeeded), keep(record.set, isNeeded)]
  return { record: { boot: record.boot, users: Object.fromEntries(users), before, set }, restore }
}

interface Release {
  /** What is left of the record. */
  readonly record: KernelRecord
  /** As of `Leave`. */
  readonly restore: readonly SysctlChange[]
}

/**
 * Settings of its network that an agent needs no more, while it stays: put back as with the last agent, where it is the
 * only one of that network, since nobody notes which of them another needs.
 */
export function planRelease(
  record: KernelRecord,
  { stateDir, netns }: KernelUser,
  { isThere, isUnused }: { isThere: (stateDir: string) => boolean; isUnused: (path: string) => boolean },
): Release {
  const others = Object.entries(record.users).filter(([user]) => user !== stateDir && isThere(user))
  if (others.some(([, place]) => [0, netns].includes(place))) return { record, restore: [] }
  const isKept = (key: string): boolean => namespaceOf(key) !== netns || !isUnused(pathOf(key))
  const restore = Object.entries(record.before)
    .filter(([key]) => !isKept(key))
    .map(([key, before]) => ({ path: pathOf(key), before, value: record.set[key] ?? before }))
    .reverse()
  return {
    record: { ...record, before: keep(record.before, isKept), set: keep(record.set, isKept) },
    restore,
  }
}

function pathOf(key: string): string {
  return key.replace(/^\d+:/, '')
}

function namespaceOf(key: string): number | undefined {
  const netns = /^(\d+):/.exec(key)?.[1]
  return netns === undefined ? undefined : Number(netns)
}

function keep(
  values: Readonly<Record<string, number>>,
  isKept: (key: string) => boolean,
): Record<string, number> {
  return Object.fromEntries(Object.entries(values).filter(([key]) => isKept(key)))
}
