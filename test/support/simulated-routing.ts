import { parseCidrOrAddress } from '../../shared/addresses.js'
import { BerthError, conflict, invalidField } from '../../shared/errors.js'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import {
  GetRoutingResponse,
  PoolAddress,
  type AddressAssignment,
  type Ipv6Prefix,
  type PortRange,
} from '../../proto/gen/berth/agent/v1/network.js'
import type { RoutingCalls } from '../../gateway/fleet/contract.js'

interface Wanted {
  readonly count: number
  readonly addresses: readonly string[]
}

/** A host's pools of addresses as numbers in memory. @param guests all of the host */
export class SimulatedRouting {
  natPorts: PortRange = { start: 20_000, end: 59_999 }
  pool: PoolAddress[] = []
  prefixes: Ipv6Prefix[] = []

  constructor(private readonly guests: () => Iterable<Guest>) {}

  readonly calls: RoutingCalls = {
    getRouting: async () => this.#routing(),
    setRouting: async ({ ipv4Pool, ipv6Prefixes, nat4Ports }) => {
      if (ipv4Pool) this.#replacePool(ipv4Pool.items)
      if (ipv6Prefixes) this.prefixes = ipv6Prefixes.items
      if (nat4Ports) this.natPorts = nat4Ports
      return { routing: this.#routing() }
    },
    scanIpv4: async ({ cidr, interface: name, gateway, verify, limit }) => {
      const items = listAddresses(cidr).map((address) => {
        const status = this.#statusOf(address, gateway, verify)
        const usable = status === 'available' || status === 'pool'
        const reason = usable ? '' : `simulated: ${status}`
        return {
          address: { address, interface: name || 'eth0', prefixLen: 24, gateway },
          status,
          usable,
          reason,
        }
      })
      return { items: limit > 0 ? items.slice(0, limit) : items }
    },
    getIpv6Status: async () => {
      const available = this.prefixes.length > 0
      const reason = available ? '' : 'the host has no global IPv6 address'
      return {
        available,
        reachable: available,
        reason,
        prefixes: this.prefixes,
        mode: available ? 'routed' : '',
      }
    },
  }

  /** @throws {BerthError} as an agent */
  allocateIpv4(wanted: Wanted): string[] {
    const pool = this.pool.map(({ address }) => address)
    const stranger = wanted.addresses.find((address) => !pool.includes(address))
    if (stranger !== undefined)
      throw invalidField('public_ipv4s', `public_ipv4s: ${stranger} is not of the pool`)
    return choose(wanted, pool, new Set(this.#held((guest) => guest.publicIpv4s)))
  }

  /** Of the first prefix: ::1, ::2, … @throws {BerthError} as an agent */
  allocateIpv6(wanted: Wanted): string[] {
    const base = this.prefixes[0]?.prefix.replace(/::$/, '')
    if (base === undefined && wanted.count + wanted.addresses.length > 0)
      throw new BerthError('exhausted', 'resource_exhausted', 'no IPv6 addresses: no prefix')
    const free = Array.from({ length: 200 }, (_, index) => `${base}::${(index + 1).toString(16)}`)
    return choose(wanted, free, new Set(this.#held((guest) => guest.ipv6Addresses)))
  }

  #routing(): GetRoutingResponse {
    const mappings = [...this.guests()].flatMap((guest) => guest.portMappings)
    return GetRoutingResponse.fromPartial({
      nat4Ports: this.natPorts,
      nat4PortsUsed: mappings.reduce((sum, { hostPort, hostPortEnd }) => sum + hostPortEnd - hostPort + 1, 0),
      ipv4Pool: this.pool,
      ipv4Assignments: this.#assignments((guest) => guest.publicIpv4s),
      ipv6Prefixes: this.prefixes,
      ipv6Assignments: this.#assignments((guest) => guest.ipv6Addresses),
    })
  }

  #assignments(addressesOf: (guest: Guest) => readonly string[]): AddressAssignment[] {
    return [...this.guests()].flatMap((guest) =>
      addressesOf(guest).map((address) => {
        const pooled = this.pool.find((item) => item.address === address)
        const prefixLen = address.includes(':') ? (this.prefixes[0]?.prefixLen ?? 128) : 32
        return {
          ...PoolAddress.create({ interface: 'eth0', prefixLen }),
          ...pooled,
          address,
          guestUuid: guest.uuid,
        }
      }),
    )
  }

  #held(addressesOf: (guest: Guest) => readonly string[]): string[] {
    return [...this.guests()].flatMap(addressesOf)
  }

  #replacePool(items: PoolAddress[]): void {
    const kept = new Set(items.map(({ address }) => address))
    const held = this.#held((guest) => guest.publicIpv4s).find((address) => !kept.has(address))
    if (held !== undefined) throw conflict('address_in_use', `${held} is assigned`)
    this.pool = items
  }

  #statusOf(address: string, gateway: string, verify: boolean): string {
    if (address === gateway) return 'gateway'
    if (this.#held((guest) => guest.publicIpv4s).includes(address)) return 'assigned'
    if (this.pool.some((item) => item.address === address)) return 'pool'
    return verify ? 'available' : 'unknown'
  }
}

function choose({ count, addresses }: Wanted, all: readonly string[], taken: ReadonlySet<string>): string[] {
  const held = addresses.find((address) => taken.has(address))
  if (held !== undefined) throw conflict('address_in_use', `${held} is another container's`)
  const free = all.filter((address) => !taken.has(address) && !addresses.includes(address))
  if (free.length < count) throw new BerthError('exhausted', 'resource_exhausted', 'not enough addresses')
  return [...addresses, ...free.slice(0, count)]
}

function listAddresses(cidr: string): string[] {
  const { first, last } = parseCidrOrAddress(cidr)!
  const count = Number(last - first) + 1
  const hosts = count > 2 ? { from: 1, count: count - 2 } : { from: 0, count }
  return Array.from({ length: hosts.count }, (_, index) => {
    const value = Number(first) + hosts.from + index
    return [24, 16, 8, 0].map((shift) => (value >>> shift) & 255).join('.')
  })
}
