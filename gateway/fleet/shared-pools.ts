import type { Guest, SharedPool } from '../../proto/gen/berth/agent/v1/guest.js'
import type { FleetView } from './contract.js'

/**
 * Returns the shared pools from which a guest may keep its public IPv4 addresses when it leaves the host `hostId`.
 * Empty if another host has a guest with one of these addresses, because the report of `hostId` is then wrong.
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
