import { conflict } from '../../../shared/errors.js'
import type { PortRange, PortSpan } from '../ports.js'
import { findSource, type Ipv6Source } from './plan-ipv6.js'
import type { Ipv6Prefix, PoolAddress } from './pool.js'

/*
 * This module checks whether a change of pools is allowed. The change must not remove guests' addresses, or add
 * addresses that are in use for another purpose.
 */

/** The host's IPv4 addresses that are in use. */
export interface UsedIpv4 {
  readonly assigned: readonly string[]
  /** Addresses that port mappings name as host_ip. */
  readonly mapped: ReadonlySet<string>
  /** Addresses that belong to other hosts of a shared pool. */
  readonly elsewhere: ReadonlySet<string>
}

/** @throws {BerthError} `address_in_use` */
export function checkPoolChange(items: readonly PoolAddress[], { assigned, mapped, elsewhere }: UsedIpv4): void {
  const kept = new Set(items.map(({ address }) => address))
  const other = items.find(({ address }) => elsewhere.has(address))
  if (other) throw conflict('address_in_use', `${other.address} belongs to another host of its shared pool`)
  const lost = assigned.find((address) => !kept.has(address) && !elsewhere.has(address))
  if (lost !== undefined) throw conflict('address_in_use', `${lost} cannot be removed: it is assigned to a container`)
  // Refuses host addresses that a mapping uses, because a guest with such an address would get the mapping's traffic.
  const named = items.find(({ address }) => mapped.has(address))
  if (named)
    throw conflict(
      'address_in_use',
      `${named.address} cannot be assigned to containers: a port mapping uses it as host_ip`,
    )
}

export interface SourcesChange {
  readonly before: readonly Ipv6Source[]
  readonly after: readonly Ipv6Source[]
}

/**
 * Checks that the change takes no IPv6 address from a guest. Ignores private addresses, which always work through
 * NAT66. Also ignores addresses that did not work before the change.
 * @param assigned IPv6 addresses of guests, canonical
 * @throws {BerthError} `address_in_use`
 */
export function checkSourcesChange({ before, after }: SourcesChange, assigned: readonly string[]): void {
  const isLost = (address: string): boolean => {
    const source = findSource(before, address)
    return source !== undefined && source.mode !== 'nat66' && !findSource(after, address)
  }
  const lost = assigned.find(isLost)
  if (lost !== undefined) throw conflict('address_in_use', `${lost} cannot be removed: it is assigned to a container`)
}

/** Checks that no guest has the host or gateway address of a prefix. @throws {BerthError} `address_in_use` */
export function checkNamedAddresses(prefixes: readonly Ipv6Prefix[], assigned: readonly string[]): void {
  const held = new Set(assigned)
  const named = prefixes.flatMap(({ address, gateway }) => [address, gateway])
  const taken = named.find((address) => held.has(address))
  if (taken !== undefined)
    throw conflict(
      'address_in_use',
      `${taken} is assigned to a container: it cannot also be the address of the host or of a network gateway`,
    )
}

/** Checks that the range contains all mapped host ports. @throws {BerthError} `port_conflict` */
export function checkPortsChange({ start, end }: PortRange, mapped: readonly PortSpan[]): void {
  const outside = mapped.find(({ first, last }) => first < start || last > end)
  if (!outside) return
  const { first, last, protocol } = outside
  const ports = first === last ? `port ${first}` : `ports ${first}-${last}`
  throw conflict(
    'port_conflict',
    `the port range must include ${protocol} ${ports} of the host, because a port mapping uses ${first === last ? 'it' : 'them'}`,
  )
}
