import type { Guest, SharedPool } from '../../proto/gen/berth/agent/v1/guest.js'
import type { FleetView } from './contract.js'

/**
 * Returns the shared pools from which a guest may keep its public IPv4 addresses when it leaves a host. Empty if a guest
 * of another host has one of these addresses: then the host that is left reports addresses that it does not own.
 */
export function sharedPoolsOf(view: FleetView, hostId: string, guest: Guest): SharedPool[] {
  const pools = view.findHost(hostId)?.description?.sharedPools ?? []
  if (pools.length === 0 || guest.publicIpv4s.length === 0) return []
  const claimed = new Set(guest.publicIpv4s)
  for (const other of view.guests()) {
    const isElsewhere = other.hostId !== hostId && other.guest.uuid !== guest.uuid
    if (isElsewhere && other.guest.publicIpv4s.some((address) => claimed.has(address))) return []
  }
  return pools
}
