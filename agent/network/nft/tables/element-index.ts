import { createHash } from 'node:crypto'
import type { GuestNetwork, NatMapping } from '../../contract.js'
import { isRange, overlapsAny, parsePorts } from './element-ports.js'
import type { FirewallChains } from '../firewall/plan-firewall.js'
import { keyOf, noChange, setOf, type TableChange } from './plan-change.js'
import { parseNumber, planGuest, type ElementId, type Elements, type GuestPlan } from './plan-guest.js'
import type { GuestSet } from '../ruleset/guest-sets.js'

/** A guest's firewall as it exists in nft. */
export interface HeldFirewall {
  /** Hash of the rules from which the firewall was created. '' if other programs have changed the firewall's chains. */
  readonly planned: string
  /** Name of the empty chain that identifies the firewall (see observed.ts). Undefined: it was not created yet. */
  readonly note: string | undefined
}

export interface HeldGuests {
  readonly elements: Elements
  /** Firewalls by the guest's device. */
  readonly firewalls: ReadonlyMap<string, HeldFirewall>
}

const nothingHeld: HeldGuests = { elements: new Map(), firewalls: new Map() }

/**
 * Index of guests' elements and firewalls in nft, by device and address. With this index, the plan for one guest's
 * change needs no data of other guests. Callers call `applied` after nft has accepted a change.
 */
export class ElementIndex {
  readonly #elements = new Map<ElementId, string>()
  /** By device, MAC or address of a guest: ids of the elements that contain it. */
  readonly #by = new Map<string, Set<ElementId>>()
  readonly #ranges = new Set<ElementId>()
  readonly #firewalls: Map<string, HeldFirewall>
  /**
   * Maps each device, MAC and address to its guest, if the guest's elements have not changed since its last attach. Any
   * change other than an attach deletes the guest's entries.
   */
  readonly #attached = new Map<string, GuestNetwork>()
  /** For each change from `planAttach`: the guest that it attaches. */
  readonly #attaching = new WeakMap<TableChange, GuestNetwork>()

  constructor({ elements, firewalls } = nothingHeld) {
    for (const [id, value] of elements) this.#insert(id, value)
    this.#firewalls = new Map(firewalls)
  }

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

  /** Records the name of a firewall's new note chain (see observed.ts). */
  noted(device: string, note: string): void {
    const held = this.#firewalls.get(device)
    if (held) this.#firewalls.set(device, { ...held, note })
  }

  /** Returns the hash of the rules from which a device's firewall was created; '' if the device has no firewall. */
  plannedOf(device: string): string {
    return this.#firewalls.get(device)?.planned ?? ''
  }

  noteOf(device: string): string | undefined {
    return this.#firewalls.get(device)?.note
  }

  /**
   * Plans the change that gives a guest exactly its elements. If nft already has all of them, the plan adds them again.
   * This has no effect, unless another program has removed the tables: nft then refuses the change.
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

  /** Plans the removal of a guest's elements. An element stays if another device has the same MAC or address. */
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

  /** Plans the change after which exactly these guests' elements exist. The change is empty if nothing differs. */
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
   * Returns the elements that the guest should have (`want`) and has (`mine`). Leaves out mappings that have not
   * changed since the last attach, because a guest can have a thousand mappings.
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

  /** Returns the value of an element, for example `10.64.0.5 . 22`. Undefined: the element does not exist. */
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

  /** Finds elements that block the addition of `wanted`: elements with the same key or with overlapping ports. */
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

export function hashFirewall(chains: FirewallChains): string {
  return shortHash([chains.in, chains.out].map((rules) => rules.join('\n')).join('\n\n'))
}

export function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16)
}

/** Returns the device, MAC and addresses of a guest, by which the index finds its nft elements. */
function tokensOfGuest({ device, mac, ipv4, ipv6Addresses }: GuestNetwork): string[] {
  return [device, mac, ipv4, ...ipv6Addresses]
}

/** Lists the guest's elements except jumps to its firewall. Adding a jump is slow, as nft reads all guests' chains. */
function listAgain(guest: GuestNetwork): (readonly [ElementId, string])[] {
  return [...planGuest(guest).elements].filter(([id]) => ownerIn[setOf(id)] !== 'verdict')
}

/** Removes the mappings that both lists have in common at their beginning and at their end. */
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

function isSource(id: ElementId): boolean {
  return setOf(id) === 'guests' || setOf(id) === 'guests6'
}

/** Returns MAC and address of an element `"device" . mac . address`, except `::`, which belongs to several guests. */
function addressesIn(id: ElementId): string[] {
  const [, mac = '', address = ''] = keyOf(id).split(' . ')
  return [mac, address].filter((text) => (text.includes(':') ? text !== '::' : text.includes('.')))
}

function deviceIn(id: ElementId): string {
  return keyOf(id).split(' . ')[0]!.replaceAll('"', '')
}

/** For each set: the part of an element that identifies the guest. */
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

/** Returns the keys by which an element is indexed: its guest's device, MAC or address. */
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

/** Returns the address from `address . port`. */
export function addressOf(target: string): string {
  return target.split(' . ')[0] ?? ''
}
