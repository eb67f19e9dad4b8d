import type { DefaultRoute } from '../../host/net/addresses.js'
import type { PoolAddress } from './pool.js'

/** Returns warnings about missing interfaces, and about addresses that are not behind the default route's router. */
export function planPoolWarnings(
  pool: readonly PoolAddress[],
  missing: readonly string[],
  route: DefaultRoute | undefined,
): string[] {
  const absent = missing.map((device) => `public addresses are configured for ${device}, which does not exist`)
  if (pool.length > 0 && !route)
    return [...absent, 'public addresses cannot be used: the host has no IPv4 default route']
  // The kernel routes guests' packets before SNAT, so they all leave by the host's default route.
  const elsewhere = pool.filter(
    (item) => item.interface !== route?.interface || (item.gateway !== '' && item.gateway !== route.gateway),
  )
  const ways = new Set(elsewhere.map((item) => [item.interface, item.gateway].filter(Boolean).join(' and ')))
  const usual = [route?.interface, route?.gateway].filter(Boolean).join(' and ')
  return [
    ...absent,
    ...[...ways].map(
      (way) =>
        `packets from the public addresses of ${way} leave the host through ${usual}: that router must accept these packets`,
    ),
  ]
}

/**
 * Returns a warning about port mappings whose `host_ip` the host no longer has.
 * @param listAddresses lists the host's canonical addresses; called only if a mapping names an address
 */
export function describeUnserved(mapped: ReadonlySet<string>, listAddresses: () => readonly string[]): string[] {
  if (mapped.size === 0) return []
  const has = new Set(listAddresses())
  return [...mapped]
    .filter((address) => !has.has(address))
    .map((address) => `port mappings use ${address} (host_ip), which the host does not have`)
}
