import { planSysctls as planLxcSysctls } from '../drivers/lxc/plan-sysctls.js'
import { planSysctls as planNetworkSysctls } from '../network/plan-bridge.js'

/** What agents of this host changed of its kernel's settings, so that the last one to go can put it back. */
export interface KernelRecord {
  /** State directories of the agents that need the settings. */
  readonly users: readonly string[]
  /** Values from before, by path below /proc/sys. */
  readonly before: Readonly<Record<string, number>>
}

/** Values agents set, by path below /proc/sys; those of the bridge go with it. */
export function listHostSettings(): Map<string, { value: number; atLeast: boolean }[]> {
  const settings = new Map<string, { value: number; atLeast: boolean }[]>()
  const add = (path: string, value: number, atLeast: boolean) =>
    settings.set(path, [...(settings.get(path) ?? []), { value, atLeast }])
  for (const { name, value } of planLxcSysctls(new Map())) add(name.replaceAll('.', '/'), value, true)
  for (const { path, value, atLeast } of planNetworkSysctls('*'))
    if (!path.includes('*')) add(path, value, atLeast ?? false)
  return settings
}

/** The record with this agent as a user, and every value that is about to be changed. */
export function planRecord(
  record: KernelRecord,
  stateDir: string,
  has: ReadonlyMap<string, number>,
): KernelRecord {
  const before: Record<string, number> = { ...record.before }
  for (const [path, wanted] of listHostSettings()) {
    const value = has.get(path)
    if (value === undefined) continue
    // After a boot the values are the host's own again: what is found then counts.
    const changes = wanted.some((want) => (want.atLeast ? value < want.value : value !== want.value))
    if (changes && !wanted.some((want) => want.value === value)) before[path] = value
  }
  return { users: [...new Set([...record.users, stateDir])], before }
}

/** What to write back: values that are still those an agent set. */
export function planRestore(
  { before }: KernelRecord,
  has: ReadonlyMap<string, number>,
): { path: string; value: number }[] {
  const settings = listHostSettings()
  return Object.entries(before).flatMap(([path, value]) => {
    const ours = settings.get(path)?.some((set) => set.value === has.get(path)) ?? false
    return ours && has.get(path) !== value ? [{ path, value }] : []
  })
}
