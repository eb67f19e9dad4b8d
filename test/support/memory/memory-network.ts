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

/** What guests' packets have come to, and what tests do to the network; outlives the agent. */
export class MemoryWire {
  readonly counters = new Map<string, ByteCounters>()
  readonly guests = new Map<string, WantedNetwork>()
  warnings: readonly string[] = []
  /** Called first where a guest is about to be given addresses, or none. */
  onChoose: () => void = () => undefined
  /** Called first where a guest is attached, told what changed; what it throws is the host's refusal. */
  onAttach: (guest: WantedNetwork, parts: readonly NetworkPart[]) => void | Promise<void> = () => undefined

  /** As if the guest had sent and received. */
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

/** The network's contract without a host: addresses come from the journal's pools as they do on one. */
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

  async ensure(guests: readonly WantedNetwork[]): Promise<string[]> {
    for (const guest of guests) this.#wire.guests.set(guest.uuid, guest)
    return []
  }

  /** Of guests without any packet, too. */
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
    // Nobody else changes it.
  }

  async close(): Promise<void> {
    return Promise.resolve()
  }
}
