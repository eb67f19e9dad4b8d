import type { GuestNetwork } from './contract.js'
import { planGuest, type ElementChange, type GuestElements } from './plan-guest.js'

/**
 * What nft holds of guests, found by device and by address: a change of one guest looks at nothing of the
 * others. Kept in step by whoever applies a change; read anew by `ensure`.
 */
export class ElementIndex {
  readonly #guests = new Set<string>()
  readonly #ports = new Map<string, string>()
  /** Guest elements by their device and by their address. */
  readonly #guestsBy = new Map<string, Set<string>>()
  /** Keys of ports by their target's address. */
  readonly #portsBy = new Map<string, Set<string>>()

  constructor(elements: GuestElements = { guests: [], ports: new Map() }) {
    this.applied({ removeGuests: [], removePorts: [], addGuests: elements.guests, addPorts: elements.ports })
  }

  /** Records a change that nft has accepted. */
  applied({ removeGuests, removePorts, addGuests, addPorts }: ElementChange): void {
    for (const element of removeGuests) {
      this.#guests.delete(element)
      for (const key of keysOf(element)) remove(this.#guestsBy, key, element)
    }
    for (const port of removePorts) {
      remove(this.#portsBy, addressOf(this.#ports.get(port) ?? ''), port)
      this.#ports.delete(port)
    }
    for (const element of addGuests) {
      this.#guests.add(element)
      for (const key of keysOf(element)) insert(this.#guestsBy, key, element)
    }
    for (const [port, target] of addPorts) {
      this.#ports.set(port, target)
      insert(this.#portsBy, addressOf(target), port)
    }
  }

  /** All of the guest's elements are added, there or not: adding one that is there changes nothing. */
  planAttach(guest: GuestNetwork): ElementChange {
    const want = planGuest(guest)
    const held = [guest.device, guest.ipv4].flatMap((key) => [...(this.#guestsBy.get(key) ?? [])])
    const removeGuests = [...new Set(held)].filter((element) => !want.guests.includes(element))
    const ports = new Set([...removeGuests.map(addressIn), guest.ipv4].flatMap((at) => this.#portsAt(at)))
    // A mapping left by another guest would stand in the way.
    for (const port of want.ports.keys()) if (this.#ports.has(port)) ports.add(port)
    const removePorts = [...ports].filter((port) => want.ports.get(port) !== this.#ports.get(port))
    return { removeGuests, removePorts, addGuests: want.guests, addPorts: want.ports }
  }

  /** Everything of the guest's device; what its address is mapped to, unless another has the address. */
  planDetach({ device, ipv4 }: GuestNetwork): ElementChange {
    const removeGuests = [...(this.#guestsBy.get(device) ?? [])]
    const others = [...(this.#guestsBy.get(ipv4) ?? [])].filter((element) => !removeGuests.includes(element))
    const addresses = new Set([...removeGuests.map(addressIn), ...(others.length === 0 ? [ipv4] : [])])
    const removePorts = [...addresses].flatMap((address) => this.#portsAt(address))
    return { removeGuests, removePorts, addGuests: [], addPorts: new Map() }
  }

  /** From what is held to exactly what these guests need; nothing when it is that already. */
  planAll(guests: readonly GuestNetwork[]): ElementChange {
    const want = mergeElements(guests.map(planGuest))
    const wantGuests = new Set(want.guests)
    return {
      removeGuests: [...this.#guests].filter((element) => !wantGuests.has(element)),
      removePorts: [...this.#ports].flatMap(([port, to]) => (want.ports.get(port) === to ? [] : [port])),
      addGuests: want.guests.filter((element) => !this.#guests.has(element)),
      addPorts: new Map([...want.ports].filter(([port, to]) => this.#ports.get(port) !== to)),
    }
  }

  /** Target of a port key, e.g. `6 . 20001` → `10.64.0.5 . 22`. */
  findTarget(port: string): string | undefined {
    return this.#ports.get(port)
  }

  #portsAt(address: string): string[] {
    return [...(this.#portsBy.get(address) ?? [])]
  }
}

export function mergeElements(all: readonly GuestElements[]): GuestElements {
  return {
    guests: all.flatMap(({ guests }) => guests),
    ports: new Map(all.flatMap(({ ports }) => [...ports])),
  }
}

/** Address in `"device" . mac . address`. */
export function addressIn(element: string): string {
  return element.split(' . ')[2] ?? ''
}

/** Address of `address . port`. */
export function addressOf(target: string): string {
  return target.split(' . ')[0] ?? ''
}

function keysOf(element: string): [device: string, address: string] {
  return [element.split(' . ')[0]?.replaceAll('"', '') ?? '', addressIn(element)]
}

function insert(index: Map<string, Set<string>>, key: string, value: string): void {
  const values = index.get(key)
  if (values) values.add(value)
  else index.set(key, new Set([value]))
}

function remove(index: Map<string, Set<string>>, key: string, value: string): void {
  const values = index.get(key)
  values?.delete(value)
  if (values?.size === 0) index.delete(key)
}
