import { planSysctls } from '../drivers/drivers.js'
import type { SysctlChange } from '../host/kernel/sysctl-change.js'

/** Kernel settings that the agents of this machine changed, so that the last agent to leave can restore them. */
export interface KernelRecord {
  /** The kernel's boot id: a boot resets the values. */
  readonly boot: string
  /** Agents that need the settings: network namespace by state directory; 0: from an earlier boot. */
  readonly users: Readonly<Record<string, number>>
  /** Original values by key, in the order of their first change. */
  readonly before: Readonly<Record<string, number>>
  /** Values that agents wrote, by the same keys. */
  readonly set: Readonly<Record<string, number>>
}

/** An agent and its network namespace. */
export interface KernelUser {
  readonly stateDir: string
  /** Inode number of the namespace, unique at any one time. */
  readonly netns: number
}

/** Key of a setting (a path below /proc/sys) in the record; network settings belong to a namespace. */
function keyOf(path: string, netns: number): string {
  return path.startsWith('net/') ? `${netns}:${path}` : path
}

/** Adds a change to the record. A value that an agent wrote is not recorded as an original one. */
export function planSettingChange(
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

/** After a boot, keeps only the agents: namespaces have other numbers now. */
export function planBoot(record: KernelRecord, boot: string): KernelRecord {
  if (record.boot === boot) return record
  return {
    boot,
    users: Object.fromEntries(Object.keys(record.users).map((user) => [user, 0])),
    before: {},
    set: {},
  }
}

/** Adds an agent to those that need the settings. */
export function planUser(record: KernelRecord, { stateDir, netns }: KernelUser): KernelRecord {
  return { ...record, users: { ...record.users, [stateDir]: netns } }
}

/** Changes to the host's limits; all of them if the present values are unknown. */
export function planHostLimits(has: ReadonlyMap<string, number>): SysctlChange[] {
  const dotted = new Map([...has].map(([path, value]) => [path.replaceAll('/', '.'), value]))
  return planSysctls(dotted).map(({ name, value }) => {
    const path = name.replaceAll('.', '/')
    return { path, before: has.get(path) ?? value, value }
  })
}

interface Leave {
  /** The remaining record; undefined: no agent is left. */
  readonly record: KernelRecord | undefined
  /** Changes to undo, last first, unless another program changed the value since. */
  readonly restore: readonly SysctlChange[]
}

/**
 * Plans what a leaving agent restores: its network namespace's settings if it is the last agent there, and the others
 * if it is the last of all. The last change is restored first, because interfaces accept router advertisements only
 * while the host does not forward, or with accept_ra = 2.
 * @param isThere whether another agent's state directory still exists
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
  /** The remaining record. */
  readonly record: KernelRecord
  /** Same as in `Leave`. */
  readonly restore: readonly SysctlChange[]
}

/**
 * Plans what an agent that stays restores: settings of its network that it no longer needs. It must be the only agent
 * in that network, since the record does not say which settings another one needs.
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

function keep(values: Readonly<Record<string, number>>, isKept: (key: string) => boolean): Record<string, number> {
  return Object.fromEntries(Object.entries(values).filter(([key]) => isKept(key)))
}
