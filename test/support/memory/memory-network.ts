import type { AddressOrder } from '../../../agent/network/addresses/pools.js'
import type { AgentConfig } from '../../../agent/config.js'
import type { HostFacts } from '../../../agent/network/addresses/host-facts.js'
import { AddressPools } from '../../../agent/network/addresses/pools.js'
import type {
  ByteCounters,
  GuestNetwork,
  Network,
  NetworkPart,
  WantedNetwork,
} from '../../../agent/network/contract.js'
import type { Database } from '../../../agent/state/database.js'

/** Packet counters of guests, and hooks for changes to the network. They are kept when the agent ends. */
export class MemoryWire {
  readonly counters = new Map<string, ByteCounters>()
  readonly guests = new Map<string, WantedNetwork>()
  warnings: readonly string[] = []
  /** Called before addresses are chosen for a guest. */
  onChoose: () => void = () => undefined
  /** Called before a guest is attached, with the parts that change. If it throws, the host refuses the change. */
  onAttach: (guest: WantedNetwork, parts: readonly NetworkPart[]) => void | Promise<void> = () => undefined

  /** Adds traffic to the counters of a guest. */
  add(uuid: string, { rxBytes, txBytes }: ByteCounters): void {
    const had = this.counters.get(uuid) ?? { rxBytes: 0, txBytes: 0 }
    this.counters.set(uuid, { rxBytes: had.rxBytes + rxBytes, txBytes: had.txBytes + txBytes })
  }
}

export interface MemoryNetworkParts {
  readonly db: Database
  readonly config: AgentConfig['network']
  readonly facts: HostFacts
  readonly wire: MemoryWire
}

/** Implements the network in memory. Addresses are chosen from the pools in the agent's journal. */
export class MemoryNetwork implements Network {
  readonly #pools: AddressPools
  readonly #wire: MemoryWire

  constructor(parts: MemoryNetworkParts) {
    this.#pools = new AddressPools(parts)
    this.#wire = parts.wire
  }

  choose(order: AddressOrder): ReturnType<AddressPools['choose']> {
    this.#wire.onChoose()
    return this.#pools.choose(order)
  }

  keep(...order: Parameters<AddressPools['keep']>): ReturnType<AddressPools['keep']> {
    return this.#pools.keep(...order)
  }

  keepIpv6(...order: Parameters<AddressPools['keepIpv6']>): string[] {
    return this.#pools.keepIpv6(...order)
  }

  listShared(addresses: readonly string[]): string[] {
    return this.#pools.listShared(addresses)
  }

  readIpv6(...prefixes: Parameters<AddressPools['readIpv6']>): ReturnType<AddressPools['readIpv6']> {
    return this.#pools.readIpv6(...prefixes)
  }

  async attach(guest: WantedNetwork, parts: readonly NetworkPart[] = ['rules', 'addresses', 'rates']): Promise<void> {
    await this.#wire.onAttach(guest, parts)
    this.#wire.guests.set(guest.uuid, guest)
  }

  async detach({ uuid }: GuestNetwork): Promise<void> {
    this.#wire.guests.delete(uuid)
    this.#wire.counters.delete(uuid)
  }

  async withdraw({ uuid }: GuestNetwork): Promise<void> {
    const guest = this.#wire.guests.get(uuid)
    if (guest) this.#wire.guests.set(uuid, { ...guest, publicIpv4s: [], ipv6Addresses: [] })
  }

  async ensure(guests: readonly WantedNetwork[]): Promise<string[]> {
    for (const guest of guests) this.#wire.guests.set(guest.uuid, guest)
    return []
  }

  /** Returns the counters of all guests, including guests without any packet. */
  async readCounters(): Promise<ReadonlyMap<string, ByteCounters>> {
    const none = { rxBytes: 0, txBytes: 0 }
    const { guests, counters } = this.#wire
    const uuids = new Set([...guests.keys(), ...counters.keys()])
    return new Map([...uuids].map((uuid) => [uuid, counters.get(uuid) ?? none]))
  }

  get warnings(): readonly string[] {
    return this.#wire.warnings
  }

  onDisturbed(): void {
    // No other program changes this network.
  }

  async close(): Promise<void> {
    return Promise.resolve()
  }
}
