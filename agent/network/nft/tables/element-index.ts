import { createHash } from 'node:crypto'
import type { GuestNetwork, NatMapping } from '../../contract.js'
import { isRange, overlapsAny, parsePorts } from './element-ports.js'
import type { FirewallChains } from '../firewall/plan-firewall.js'
import { keyOf, noChange, setOf, type TableChange } from './plan-change.js'
import { parseNumber, planGuest, type ElementId, type Elements, type GuestPlan } from './plan-guest.js'
import type { GuestSet } from '../ruleset/guest-sets.js'

/** A guest's firewall as stored in nft. */
export interface HeldFirewall {
  /** Hash of the planned rules; '' if the chains on the host differ from those that were created. */
  readonly planned: string
  /** Name of the empty chain that notes the firewall (observed.ts); undefined: not noted yet. */
  readonly note: string | undefined
}

export interface HeldGuests {
  readonly elements: Elements
  /** By device. */
  readonly firewalls: ReadonlyMap<string, HeldFirewall>
}

const nothingHeld: HeldGuests = { elements: new Map(), firewalls: new Map() }

/**
 * Guests' elements and firewalls in nft, indexed by device and address, so that a change of one guest reads no other
 * guest. Callers that apply a change record it here; `ensure` reads everything again.
 */
export class ElementIndex {
  readonly #elements = new Map<ElementId, string>()
  /** Elements by device and by address. */
  readonly #by = new Map<string, Set<ElementId>>()
  readonly #ranges = new Set<ElementId>()
  readonly #firewalls: Map<string, HeldFirewall>
  /**
   * Guests as last attached, by device and by address. An entry is dropped if an element of its guest changes in
   * another way.
   */
  readonly #attached = new Map<string, GuestNetwork>()
  /** The guest that a planned change attaches. */
  readonly #attaching = new WeakMap<TableChange, GuestNetwork>()

  constructor({ elements, firewalls } = nothingHeld) {
    for (const [id, value] of elements) this.#insert(id, value)
    this.#firewalls = new Map(firewalls)
  }

  /** Records a change that nft has accepted. */
  applied(change: TableChange): void {
    const { remove, add, setFirewalls, dropFirewalls } = change
    for (const id of remove) this.#remove(id)
    for (const [id, value] of add) if (!this.#elements.has(id)) this.#insert(id, value)
    for (const device of dropFirewalls) this.#firewalls.delete(device)
    for (const chains of setFirewalls)
      this.#firewalls.set(chains.device, { planned: hashFirewall(chains), note: undefined })
    const guest = this.#attaching.get(change)
    for (const token of guest ? tokensOfGuest(guest) : []) this.#attached.set(token, guest!)
  }

  /** Records the note of a firewall that was set. */
  noted(device: string, note: string): void {
    const held = this.#firewalls.get(device)
    if (held) this.#firewalls.set(device, { ...held, note })
  }

  /** Hash of the planned firewall of a device; '' if it has none. */
  plannedOf(device: string): string {
    return this.#firewalls.get(device)?.planned ?? ''
  }

  noteOf(device: string): string | undefined {
    return this.#firewalls.get(device)?.note
  }

  /**
   * Plans the difference. If there is none, it plans to add all of the guest's elements again: this changes nothing,
   * but fails if another program removed the tables.
   */
  planAttach(guest: GuestNetwork): TableChange {
    const { want, mine } = this.#compare(guest)
    const isStale = (id: ElementId): boolean => want.elements.get(id) !== this.#elements.get(id)
    const held = mine.filter(isStale)
    const left = held.filter((id) => isSource(id) && !want.elements.has(id)).flatMap(addressesIn)
    const differing = [...want.elements].filter(([id, value]) => this.#elements.get(id) !== value)
    const inTheWay = this.#inTheWayOf(differing.map(([id]) => id))
    const remove = [...new Set([...held, ...[...this.#heldBy(left), ...inTheWay].filter(isStale)])]
    const firewalls = this.#planFirewall(guest.device, want)
    const { setFirewalls, dropFirewalls } = firewalls
    const same = [remove, differing, setFirewalls, dropFirewalls].every((list) => list.length === 0)
    const add = new Map(same ? listAgain(guest) : differing)
    const change = { remove, add, ...firewalls }
    this.#attaching.set(change, guest)
    return change
  }

  /** Removes all elements of the guest's device, and of its addresses unless another guest has the address. */
  planDetach(guest: GuestNetwork): TableChange {
    const { device } = guest
    const ofDevice = this.#heldBy([device])
    const own = new Set([...tokensOfGuest(guest), ...ofDevice.filter(isSource).flatMap(addressesIn)])
    const free = [...own].filter((token) =>
      this.#heldBy([token]).every((id) => !isSource(id) || deviceIn(id) === device),
    )
    const remove = [...new Set([...ofDevice, ...this.#heldBy(free)])]
    return { ...noChange, remove, dropFirewalls: this.#firewalls.has(device) ? [device] : [] }
  }

  /**
   * Plans the difference between the stored elements and exactly those that these guests need; empty if there is none.
   */
  planAll(guests: readonly GuestNetwork[]): TableChange {
    const plans = guests.map(planGuest)
    const want = mergeElements(plans)
    const wanted = new Map(plans.flatMap(({ firewall }) => (firewall ? [[firewall.device, firewall]] : [])))
    const differs = (id: ElementId, value: string): boolean => this.#elements.get(id) !== value
    return {
      remove: [...this.#elements].flatMap(([id, value]) => (want.get(id) === value ? [] : [id])),
      add: new Map([...want].filter(([id, value]) => differs(id, value))),
      setFirewalls: [...wanted.values()].filter((chains) => this.#differs(chains)),
      dropFirewalls: [...this.#firewalls.keys()].filter((device) => !wanted.has(device)),
    }
  }

  /**
   * Returns the part of the guest that may differ: of a thousand mappings, only those that changed since it was
   * attached.
   */
  #compare(guest: GuestNetwork): { want: GuestPlan; mine: ElementId[] } {
    const tokens = tokensOfGuest(guest)
    const before = this.#attached.get(guest.device)
    const untouched = before && tokens.every((token) => this.#attached.get(token) === before)
    if (!untouched || tokensOfGuest(before).join() !== tokens.join())
      return { want: planGuest(guest), mine: this.#heldBy(tokens) }
    const [went, came] = withoutSame(before.portMappings, guest.portMappings)
    const { elements } = planGuest({ ...before, portMappings: went })
    return { want: planGuest({ ...guest, portMappings: came }), mine: [...elements.keys()] }
  }

  /** Value that an element maps to, e.g. `10.64.0.5 . 22`; undefined: no such element. */
  findValue(id: ElementId): string | undefined {
    return this.#elements.get(id)
  }

  #planFirewall(device: string, { firewall }: GuestPlan): Pick<TableChange, 'setFirewalls' | 'dropFirewalls'> {
    if (firewall) return { setFirewalls: this.#differs(firewall) ? [firewall] : [], dropFirewalls: [] }
    return { setFirewalls: [], dropFirewalls: this.#firewalls.has(device) ? [device] : [] }
  }

  #differs(chains: FirewallChains): boolean {
    return this.#firewalls.get(chains.device)?.planned !== hashFirewall(chains)
  }

  /** Existing elements that block desired ones: the same key with another value, or an overlapping range. */
  #inTheWayOf(wanted: readonly ElementId[]): ElementId[] {
    const ranges = wanted.filter(isRange).map(parsePorts)
    const overlapping = ranges.length === 0 ? [] : [...this.#ranges].filter((id) => overlapsAny(id, ranges))
    return [...wanted.filter((id) => this.#elements.has(id)), ...overlapping]
  }

  #heldBy(tokens: readonly string[]): ElementId[] {
    return tokens.flatMap((token) => [...(this.#by.get(token) ?? [])])
  }

  #insert(id: ElementId, value: string): void {
    this.#elements.set(id, value)
    if (isRange(id)) this.#ranges.add(id)
    for (const token of tokensOf(id, value)) {
      this.#attached.delete(token)
      const ids = this.#by.get(token)
      if (ids) ids.add(id)
      else this.#by.set(token, new Set([id]))
    }
  }

  #remove(id: ElementId): void {
    for (const token of tokensOf(id, this.#elements.get(id) ?? '')) {
      this.#attached.delete(token)
      const ids = this.#by.get(token)
      ids?.delete(id)
      if (ids?.size === 0) this.#by.delete(token)
    }
    this.#ranges.delete(id)
    this.#elements.delete(id)
  }
}

export function mergeElements(plans: readonly { elements: Elements }[]): Map<ElementId, string> {
  return new Map(plans.flatMap(({ elements }) => [...elements]))
}

/** Hash of a planned firewall. */
export function hashFirewall(chains: FirewallChains): string {
  return shortHash([chains.in, chains.out].map((rules) => rules.join('\n')).join('\n\n'))
}

export function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

/** Keys by which a guest's elements are found. */
function tokensOfGuest({ device, mac, ipv4, ipv6Addresses }: GuestNetwork): string[] {
  return [device, mac, ipv4, ...ipv6Addresses]
}

/** Excludes elements that lead to chains: to add one of those, nft reads all guests' chains. */
function listAgain(guest: GuestNetwork): (readonly [ElementId, string])[] {
  return [...planGuest(guest).elements].filter(([id]) => ownerIn[setOf(id)] !== 'verdict')
}

/** Both lists without the mappings that they share at the beginning and at the end. */
function withoutSame(
  before: readonly NatMapping[],
  now: readonly NatMapping[],
): [went: readonly NatMapping[], came: readonly NatMapping[]] {
  const shorter = Math.min(before.length, now.length)
  let first = 0
  while (first < shorter && isSameMapping(before[first]!, now[first]!)) first++
  let last = 0
  while (last < shorter - first && isSameMapping(before.at(-1 - last)!, now.at(-1 - last)!)) last++
  return [before.slice(first, before.length - last), now.slice(first, now.length - last)]
}

function isSameMapping(a: NatMapping, b: NatMapping): boolean {
  return (
    a.protocol === b.protocol &&
    a.hostIp === b.hostIp &&
    a.hostPort === b.hostPort &&
    a.hostPortEnd === b.hostPortEnd &&
    a.containerPort === b.containerPort
  )
}

/** True if the element says which guest has an address. */
function isSource(id: ElementId): boolean {
  return setOf(id) === 'guests' || setOf(id) === 'guests6'
}

/** MAC and address in `"device" . mac . address`, unless several guests may have it (`::`). */
function addressesIn(id: ElementId): string[] {
  const [, mac = '', address = ''] = keyOf(id).split(' . ')
  return [mac, address].filter((text) => (text.includes(':') ? text !== '::' : text.includes('.')))
}

function deviceIn(id: ElementId): string {
  return keyOf(id).split(' . ')[0]!.replaceAll('"', '')
}

/** The part of an element that names its owner. */
const ownerIn: Readonly<Record<GuestSet, 'device and address' | 'key' | 'number' | 'verdict' | 'value'>> = {
  guests: 'device and address',
  guests6: 'device and address',
  solicitors: 'device and address',
  firewall_in: 'verdict',
  firewall_out: 'verdict',
  firewall_in6: 'verdict',
  firewall_out6: 'verdict',
  owners: 'key',
  owners6: 'key',
  mailers: 'key',
  received: 'number',
  sent: 'key',
  self: 'key',
  self6: 'key',
  public_out: 'key',
  public_in: 'value',
  ports: 'value',
  host_ports: 'value',
  port_ranges: 'value',
  ports6: 'value',
  host_ports6: 'value',
  port_ranges6: 'value',
}

/** The owners of an element: a device, a guest's address, or both. */
function tokensOf(id: ElementId, value: string): string[] {
  const first = addressOf(keyOf(id))
  switch (ownerIn[setOf(id)]) {
    case 'device and address':
      return [deviceIn(id), ...addressesIn(id)]
    case 'verdict':
      return [first, value.replace(/^jump (?:in|out)_/, '')]
    case 'number':
      return [parseNumber(first)]
    case 'key':
      return [first]
    case 'value':
      return [addressOf(value)]
  }
}

/** The address in `address . port`. */
export function addressOf(target: string): string {
  return target.split(' . ')[0] ?? ''
}
