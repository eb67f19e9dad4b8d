import type { FirewallChains } from '../firewall/plan-firewall.js'
import type { ElementId, Elements } from './plan-guest.js'
import { countingSets, guestSets, type GuestSet } from '../ruleset/guest-sets.js'

/** A change of nft's elements and firewalls. An element whose value changes is in both `remove` and `add`. */
export interface TableChange {
  readonly remove: readonly ElementId[]
  readonly add: Elements
  readonly setFirewalls: readonly FirewallChains[]
  /** Devices whose firewalls are removed. */
  readonly dropFirewalls: readonly string[]
}

export const noChange: TableChange = { remove: [], add: new Map(), setFirewalls: [], dropFirewalls: [] }

export interface CounterState {
  /** Returns the name of the chain that identifies a device's firewall (see observed.ts). Undefined: no firewall. */
  readonly noteOf: (device: string) => string | undefined
  /** Returns the bytes that an element had counted when it was last read. */
  readonly countedBy: (id: ElementId) => number
}

/**
 * Plans the commands of one transaction. Removals come first, because nft refuses a second value for an existing key.
 * Elements are removed before the chains to which they lead, and added after these chains.
 */
export function planTableChange(table: string, change: TableChange, { noteOf, countedBy }: CounterState): string[] {
  const { remove, add, setFirewalls, dropFirewalls } = change
  const at = `inet ${table}`
  const devices = [...setFirewalls.map(({ device }) => device), ...dropFirewalls]
  const counting = new Set<GuestSet>(countingSets)
  const entry = ([id, value]: readonly [ElementId, string]): [ElementId, string] => {
    const bytes = counting.has(setOf(id)) ? countedBy(id) : 0
    return [id, bytes > 0 ? ` counter packets 0 bytes ${bytes}` : value && ` : ${value}`]
  }
  return [
    ...planElements(
      table,
      'delete',
      remove.map((id) => [id, '']),
    ),
    ...devices.flatMap((device) => noteOf(device) ?? []).map((note) => `delete chain ${at} ${note}`),
    ...dropFirewalls.flatMap((device) => eachChain(device, (name) => removeChain(at, name))),
    ...setFirewalls.flatMap((chains) => setFirewall(at, chains)),
    ...planElements(table, 'add', [...add].map(entry)),
  ]
}

/** Returns the name of the set from an element's id. `keyOf` returns the other part, the key. */
export function setOf(id: ElementId): GuestSet {
  return id.slice(0, id.indexOf(' ')) as GuestSet
}

export function keyOf(id: ElementId): string {
  return id.slice(id.indexOf(' ') + 1)
}

function planElements(
  table: string,
  verb: 'add' | 'delete',
  entries: readonly (readonly [id: ElementId, tail: string])[],
): string[] {
  const bySet = new Map<GuestSet, string[]>()
  for (const [id, tail] of entries) {
    const items = bySet.get(setOf(id)) ?? []
    items.push(keyOf(id) + tail)
    bySet.set(setOf(id), items)
  }
  return [...bySet].map(
    ([name, items]) => `${verb} element ${guestSets[name]} ${table} ${name} { ${items.join(', ')} }`,
  )
}

function eachChain(device: string, plan: (name: string) => string[]): string[] {
  return [`in_${device}`, `out_${device}`].flatMap(plan)
}

/** Returns commands that remove the chain. They succeed even if the chain does not exist. */
function removeChain(at: string, name: string): string[] {
  return [`add chain ${at} ${name}`, `flush chain ${at} ${name}`, `delete chain ${at} ${name}`]
}

function setFirewall(at: string, chains: FirewallChains): string[] {
  const { device } = chains
  return [
    ...eachChain(device, (name) => [`add chain ${at} ${name}`, `flush chain ${at} ${name}`]),
    ...chains.in.map((rule) => `add rule ${at} in_${device} ${rule}`),
    ...chains.out.map((rule) => `add rule ${at} out_${device} ${rule}`),
  ]
}
