import type { PoolAddress } from '../../../proto/gen/berth/agent/v1/network.js'
import { isInRange } from '../../../shared/addresses.js'
import { conflict } from '../../../shared/errors.js'
import type { Fleet } from '../../fleet/contract.js'
import { mayServe } from '../../fleet/shared-pools.js'

/**
 * Checks that no other host of a shared pool has the IPv4 addresses that are to be added to the pool of this host.
 * @returns true if all other hosts of these pools were asked; false if no address of a shared pool is added
 * @throws {BerthError} `address_in_use`, and `host_offline` if another host that may serve the pool is offline
 */
export async function checkSharedPools(fleet: Fleet, hostId: string, wanted: readonly PoolAddress[]): Promise<boolean> {
  const pools = fleet.view.findHost(hostId)?.description?.sharedPools ?? []
  const shared = wanted
    .map(({ address }) => address)
    .filter((address) => pools.some(({ range }) => isInRange(address, range)))
  if (shared.length === 0) return false
  const own = new Set((await fleet.agent(hostId).routing.getRouting({})).ipv4Pool.map(({ address }) => address))
  const added = shared.filter((address) => !own.has(address))
  if (added.length === 0) return false
  for (const host of fleet.view.hosts()) {
    if (host.id === hostId || !mayServe(host, pools)) continue
    const { ipv4Pool, ipv4Assignments } = await fleet.agent(host.id).routing.getRouting({})
    const taken = new Set([...ipv4Pool, ...ipv4Assignments].map(({ address }) => address))
    const address = added.find((one) => taken.has(one))
    if (address !== undefined) throw conflict('address_in_use', `${address} is in the pool of the host ${host.name}`)
  }
  return true
}
