import type { DefaultRoute } from '../../host/addresses.js'
import type { PoolAddress } from './pool.js'

/** What a person should look at: public addresses that cannot work as their pool says. */
export function planPoolWarnings(
  pool: readonly PoolAddress[],
  missing: readonly string[],
  route: DefaultRoute | undefined,
): string[] {
  const absent = missing.map((device) => `public addresses belong on ${device}, which is not there`)
  if (pool.length > 0 && !route) return [...absent, 'public addresses have no way out: no IPv4 default route']
  // Guests' packets are routed before their address is replaced: all leave by the host's own default route.
  const elsewhere = pool.filter(
    (item) => item.interface !== route?.interface || (item.gateway !== '' && item.gateway !== route.gateway),
  )
  const ways = new Set(elsewhere.map((item) => [item.interface, item.gateway].filter(Boolean).join(' and ')))
  const usual = [route?.interface, route?.gateway].filter(Boolean).join(' and ')
  return [
    ...absent,
    ...[...ways].map(
      (way) => `public addresses of ${way} leave by way of ${usual}: its router must accept them`,
    ),
  ]
}

/**
 * Port mappings at addresses that the host has no more: nobody reaches them.
 * @param listAddresses of the host, canonical; called where there is such a mapping
 */
export function describeUnserved(
  mapped: ReadonlySet<string>,
  listAddresses: () => readonly string[],
): string[] {
  if (mapped.size === 0) return []
  const has = new Set(listAddresses())
  return [...mapped]
    .filter((address) => !has.has(address))
    .map((address) => `port mappings name ${address} (host_ip), which the host does not have`)
}
