import { planSysctls } from '../drivers/drivers.js'
import type { SysctlChange } from '../host/kernel/sysctl-change.js'

/** Kernel settings that the agents of this host have changed. The last agent that is removed restores them. */
export interface KernelRecord {
  /** The kernel's boot id. A reboot resets kernel settings, so the record's values are only valid for this boot. */
  readonly boot: string
  /** Network namespace of each agent that needs the settings, by state directory. 0: not known after a reboot. */
  readonly users: Readonly<Record<string, number>>
  /** Original values by key (see `keyOf`), in the order of their first change. */
  readonly before: Readonly<Record<string, number>>
  /** The last values that agents have written, with the same keys as `before`. */
  readonly set: Readonly<Record<string, number>>
}

export interface KernelUser {
  readonly stateDir: string
  readonly netns: number
}

/** Returns the key of a setting: its path below /proc/sys. Keys of network settings begin with their namespace. */
function keyOf(path: string, netns: number): string {
  return path.startsWith('net/') ? `${netns}:${path}` : path
}

/** Records a change. `before` becomes the recorded original value, unless an agent has written this value itself. */
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

/** After a reboot, keeps only the list of agents, because settings are reset and namespaces have new numbers. */
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

/** Plans the changes that raise the host's limits, also those that `has` lacks. @param has present limits by path */
export function planHostLimits(has: ReadonlyMap<string, number>): SysctlChange[] {
  const dotted = new Map([...has].map(([path, value]) => [path.replaceAll('/', '.'), value]))
  return planSysctls(dotted).map(({ name, value }) => {
    const path = name.replaceAll('.', '/')
    return { path, before: has.get(path) ?? value, value }
  })
}

interface Leave {
  /** The record without the removed agent. Undefined: the host has no other agent. */
  readonly record: KernelRecord | undefined
  /** Settings to restore, the last change first. Callers skip settings that other programs have changed meanwhile. */
  readonly restore: readonly SysctlChange[]
}

/**
 * Plans which settings an agent restores when it is removed. It restores network settings if no other agent uses its
 * network namespace, and host-wide settings if the host has no other agent. Changes are undone in reverse order.
 * Forwarding is therefore switched off before `accept_ra` is restored (see `planIpv6Settings`).
 * @param isThere true if the state directory of another agent still exists
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
  /** The record without the restored settings. */
  readonly record: KernelRecord
  /** Settings that the agent must restore, the last change first. */
  readonly restore: readonly SysctlChange[]
}

/**
 * Plans which settings a running agent restores: settings of its network namespace that it no longer needs. Restores
 * nothing if another agent possibly uses the namespace, because the record does not show that agent's needs.
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
