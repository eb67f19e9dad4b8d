import type { Guest, SharedPool } from '../../proto/gen/berth/agent/v1/guest.js'
import { isInRange } from '../../shared/addresses.js'
import { conflict } from '../../shared/errors.js'
import type { FleetView, HostView } from './contract.js'

/**
 * Returns the shared pools from which a guest may keep its public addresses when it leaves the host `hostId`. Empty if
 * another host has a guest with one of these addresses, because the report of `hostId` is then wrong. IPv6 addresses
 * outside the pools do not count, because the same private address (NAT66) can be on several hosts.
 */
export function sharedPoolsOf(view: FleetView, hostId: string, guest: Guest): SharedPool[] {
  const pools = view.findHost(hostId)?.description?.sharedPools ?? []
  const claimed = new Set([...guest.publicIpv4s, ...sharedOf(guest.ipv6Addresses, pools)])
  if (pools.length === 0 || claimed.size === 0) return []
  for (const other of view.guests()) {
    const isElsewhere = other.hostId !== hostId && other.guest.uuid !== guest.uuid
    if (isElsewhere && addressesOf(other.guest).some((address) => claimed.has(address))) return []
  }
  return pools
}

/** Returns the addresses that one of the pools contains. */
function sharedOf(addresses: readonly string[], pools: readonly SharedPool[]): string[] {
  return addresses.filter((address) => pools.some(({ range }) => isInRange(address, range)))
}

function addressesOf({ publicIpv4s, ipv6Addresses }: Guest): string[] {
  return [...publicIpv4s, ...ipv6Addresses]
}

/** True if the host serves one of the pools, or if its pools are not known yet although it has joined. */
export function mayServe(host: HostView, pools: readonly SharedPool[]): boolean {
  if (!host.description) return host.certificateNotAfterMs > 0
  return host.description.sharedPools.some((one) =>
    pools.some(({ name, range }) => name === one.name && range === one.range),
  )
}

/**
 * Refuses IPv6 addresses of a shared pool if a guest on another host of this pool has them. An agent cannot refuse them,
 * because it knows only the addresses of its own guests.
 * @param addresses canonical addresses that a guest of the host `hostId` is to get
 * @throws {BerthError} `address_in_use`
 */
export function refuseSharedIpv6(view: FleetView, hostId: string, addresses: readonly string[]): void {
  const pools = (view.findHost(hostId)?.description?.sharedPools ?? []).filter(
    (pool) => sharedOf(addresses, [pool]).length > 0,
  )
  const shared = new Set(sharedOf(addresses, pools))
  if (shared.size === 0) return
  const others = view.hosts().filter((host) => host.id !== hostId && mayServe(host, pools))
  for (const { id } of others)
    for (const { guest } of view.guestsOf(id)) {
      const address = guest.ipv6Addresses.find((one) => shared.has(one))
      if (address !== undefined)
        throw conflict('address_in_use', `${address} is assigned to a container on another host of the shared pool`)
    }
}
