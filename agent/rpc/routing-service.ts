import type { Logger } from 'pino'
import type { RoutingServiceServer } from '../../proto/gen/berth/agent/v1/network.js'
import type { Routing } from '../network/addresses/routing.js'
import { unary } from './unary.js'

export function createRoutingService(routing: Routing, log: Logger): RoutingServiceServer {
  return {
    getRouting: unary(log, 'read routing', () => routing.getRouting()),
    setRouting: unary(log, 'set routing', async ({ ipv4Pool, ipv6Prefixes, nat4Ports, isChecked }) => {
      const change = { ipv4Pool: ipv4Pool?.items, ipv6Prefixes: ipv6Prefixes?.items, nat4Ports, isChecked }
      return { routing: await routing.setRouting(change) }
    }),
    scanIpv4: unary(log, 'scan addresses', async (request) => ({ items: await routing.scanIpv4(request) })),
    getIpv6Status: unary(log, 'read IPv6 status', () => routing.getIpv6Status()),
  }
}
