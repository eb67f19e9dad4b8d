import { createHash } from 'node:crypto'
import type { GuestNetwork, NatMapping } from '../contract.js'
import { isRange, overlapsAny, parsePorts } from './element-ports.js'
import type { FirewallChains } from '../firewall/plan-firewall.js'
import { keyOf, noChange, setOf, type Change } from './plan-change.js'
import { parseNumber, planGuest, type ElementId, type Elements, type GuestPlan } from './plan-guest.js'
import type { GuestSet } from '../ruleset/guest-sets.js'

/** A guest's firewall as nft holds it. */
export interface HeldFirewall {
  /** Of the rules as planned; '' when what is there is not what was made. */
  readonly planned: string
  /** The empty chain that tells; undefined: none was made yet. */
  readonly note: string | undefined
}

export interface HeldGuests {
  readonly elements: Elements
  /** By device. */
  readonly firewalls: ReadonlyMap<string, HeldFirewall>
}

const nothingHeld: HeldGuests = { elements: new Map(), firewalls: new Map() }

/**
 * What nft holds of guests, found by device and by address: a change of one guest looks at nothing of the
 * others. Kept in step by whoever applies a change; read anew by `ensure`.
 */
export class ElementIndex {
  readonly #elements = new Map<ElementId, string>()
  /** Elements by their device and by their address. */
  readonly #by = new Map<string, Set<ElementId>>()
  readonly #ranges = new Set<ElementId>()
  readonly #firewalls: Map<string, HeldFirewall>
  /** Guests as they were attached last, nothing of theirs having changed since; by device and by address. */
  readonly #attached = new Map<string, GuestNetwork>()
  /** Whom a change attaches. */
  readonly #attaching = new WeakMap<Change, GuestNetwork>()

  constructor({ elements, firewalls } = nothingHeld) {
    for (const [id, value] of elements) this.#insert(id, value)
    this.#firewalls = new Map(firewalls)
  }

  /** Records a change that nft has accepted. */
  applied(change: Change): void {
    const { remove, add, setFirewalls, dropFirewalls } = change
    for (const id of remove) this.#remove(id)
    for (const [id, value] of add) if (!this.#elements.has(id)) this.#insert(id, value)
    for (const device of dropFirewalls) this.#firewalls.delete(device)
    for (const chains of setFirewalls)
      this.#firewalls.set(chains.device, { planned: hashOf(chains), note: undefined })
    const guest = this.#attaching.get(change)
    for (const token of guest ? tokensOfGuest(guest) : []) this.#attached.set(token, guest!)
  }

  /** Records the note of a firewall that was set. */
  noted(device: string, note: string): void {
    const held = this.#firewalls.get(device)
    if (held) this.#firewalls.set(device, { ...held, note })
  }

  /** Hash of a device's firewall as planned; '' when there is none. */
  plannedOf(device: string): string {
    return this.#firewalls.get(device)?.planned ?? ''
  }

  noteOf(device: string): string | undefined {
    return this.#firewalls.get(device)?.note
  }

  /**
   * What differs. Where nothing does, all of the guest's elements are added, there or not: adding one that is there
   * changes nothing, and it shows when another program took the tables away.
   */
  planAttach(guest: GuestNetwork): Change {
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

  /** Everything of the guest's device; what belongs to its addresses, unless another has the address. */
  planDetach(guest: GuestNetwork): Change {
    const { device } = guest
    const ofDevice = this.#heldBy([device])
    const own = new Set([...tokensOfGuest(guest), ...ofDevice.filter(isSource).flatMap(addressesIn)])
    const free = [...own].filter((token) =>
      this.#heldBy([token]).every((id) => !isSource(id) || deviceIn(id) === device),
    )
    const remove = [...new Set([...ofDevice, ...this.#heldBy(free)])]
    return { ...noChange, remove, dropFirewalls: this.#firewalls.has(device) ? [device] : [] }
  }

  /** From what is held to exactly what these guests need; nothing when it is that already. */
  planAll(guests: readonly GuestNetwork[]): Change {
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

  /** What may differ from what is there: of a thousand mappings those that came or went since the guest was attached. */
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

  /** What an element is mapped to, e.g. `10.64.0.5 . 22`; undefined: it is not there. */
  findValue(id: ElementId): string | undefined {
    return this.#elements.get(id)
  }

  #planFirewall(device: string, { firewall }: GuestPlan): Pick<Change, 'setFirewalls' | 'dropFirewalls'> {
    if (firewall) return { setFirewalls: this.#differs(firewall) ? [firewall] : [], dropFirewalls: [] }
    return { setFirewalls: [], dropFirewalls: this.#firewalls.has(device) ? [device] : [] }
  }

  #differs(chains: FirewallChains): boolean {
    return this.#firewalls.get(chains.device)?.planned !== hashOf(chains)
  }

  /** Of elements that are not there: what has the same key with another value, or is a range that overlaps. */
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

/** Of a firewall as planned. */
export function hashOf(chains: FirewallChains): string {
  return shortHash([chains.in, chains.out].map((rules) => rules.join('\n')).join('\n\n'))
}

export function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

/** By what a guest's elements are found. */
function tokensOfGuest({ device, mac, ipv4, ipv6Addresses }: GuestNetwork): string[] {
  return [device, mac, ipv4, ...ipv6Addresses]
}

/** Those that lead to chains are left out: nft reads all guests' chains for one. */
function listAgain(guest: GuestNetwork): (readonly [ElementId, string])[] {
  return [...planGuest(guest).elements].filter(([id]) => ownerIn[setOf(id)] !== 'verdict')
}

/** Both lists without the mappings that both begin with, and those that both end with. */
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

/** Elements that tell who has an address. */
function isSource(id: ElementId): boolean {
  return setOf(id) === 'guests' || setOf(id) === 'guests6'
}

/** MAC and address in `"device" . mac . address`, as far as they are one guest's alone. */
function addressesIn(id: ElementId): string[] {
  const [, mac = '', address = ''] = keyOf(id).split(' . ')
  return [mac, address].filter((text) => (text.includes(':') ? text !== '::' : text.includes('.')))
}

function deviceIn(id: ElementId): string {
  return keyOf(id).split(' . ')[0]!.replaceAll('"', '')
}

/** Where an element tells whose it is. */
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

/** Whose an element is: a device, a guest's address, or both. */
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

/** Address of `address . port`. */
export function addressOf(target: string): string {
  return target.split(' . ')[0] ?? ''
}
