import type { AddressOrder } from './addresses/pools.js'
import { toBerthError } from '../../shared/errors.js'
import type {
  AddressBook,
  ByteCounters,
  GuestNetwork,
  Network,
  NetworkPart,
  Rules,
  Shaper,
  WantedNetwork,
} from './contract.js'
import type { Ipv6Plan } from './addresses/plan-ipv6.js'
import type { Ipv6Prefix, PoolAddress } from './addresses/pool.js'
import type { SharedRange } from './addresses/shared-pools.js'

const everything: readonly NetworkPart[] = ['rules', 'addresses', 'rates']

/** Combines rules, addresses and rates into the `Network` of contract.ts. Each part runs one call at a time. */
export class HostNetwork implements Network {
  /** Repairs that earlier calls of `ensure` made before they failed. The next successful call returns them. */
  readonly #repaired: string[] = []

  constructor(
    private readonly rules: Rules,
    private readonly addresses: AddressBook,
    private readonly shaper: Shaper,
  ) {}

  choose(order: AddressOrder): Pick<GuestNetwork, 'publicIpv4s' | 'ipv6Addresses'> {
    return this.addresses.choose(order)
  }

  keep(addresses: readonly string[], others: readonly SharedRange[]): PoolAddress[] {
    return this.addresses.keep(addresses, others)
  }

  keepIpv6(addresses: readonly string[], others: readonly SharedRange[]): string[] {
    return this.addresses.keepIpv6(addresses, others)
  }

  listShared(addresses: readonly string[]): string[] {
    return this.addresses.listShared(addresses)
  }

  async attach(guest: WantedNetwork, parts = everything): Promise<void> {
    const cutsFirst = guest.cut === true && parts.includes('rates') // the traffic is cut even if `rules` fails later
    if (cutsFirst) await this.shaper.apply(guest)
    if (parts.includes('rules')) await this.rules.attach(guest)
    if (parts.includes('addresses')) await this.addresses.attach(guest)
    if (parts.includes('rates') && !cutsFirst) await this.shaper.apply(guest)
  }

  async detach(guest: GuestNetwork): Promise<void> {
    await this.addresses.detach(guest)
    await this.rules.detach(guest)
    await this.shaper.remove(guest.device)
  }

  withdraw(guest: GuestNetwork): Promise<void> {
    return this.addresses.detach(guest)
  }

  /** Repairs rules first, then addresses and rates. Repairs the rates even if the repair of the addresses fails. */
  async ensure(guests: readonly WantedNetwork[], parts = everything): Promise<string[]> {
    if (parts.includes('rules')) this.#repaired.push(...(await this.rules.ensure(guests)))
    const results = await Promise.allSettled([
      parts.includes('addresses') ? this.addresses.ensure(guests) : [],
      parts.includes('rates') ? this.shaper.ensure(guests) : [],
    ])
    for (const result of results) if (result.status === 'fulfilled') this.#repaired.push(...result.value)
    for (const result of results)
      if (result.status === 'rejected')
        throw toBerthError(result.reason, 'could not set the addresses and rates of guests')
    return this.#repaired.splice(0)
  }

  readCounters(): Promise<ReadonlyMap<string, ByteCounters>> {
    return this.rules.readCounters()
  }

  get warnings(): readonly string[] {
    return [...this.rules.warnings, ...this.addresses.warnings]
  }

  onDisturbed(listener: (part: 'rules' | 'rates') => void): void {
    this.rules.onForeignChange(() => listener('rules'))
    this.shaper.onLinks(() => listener('rates'))
  }

  readIpv6(configured?: readonly Ipv6Prefix[], held?: readonly Ipv6Prefix[]): Ipv6Plan {
    return this.addresses.readIpv6(configured, held)
  }

  /** Closes the parts in an order in which no part is called after it was closed. */
  async close(): Promise<void> {
    await this.addresses.close()
    await this.shaper.close()
    await this.rules.close()
  }
}
