import { readFile } from 'node:fs/promises'
import { networkInterfaces, type NetworkInterfaceInfo } from 'node:os'

/** Addresses clients reach the host at; empty strings where there is none. */
export interface PublicAddresses {
  readonly ipv4: string
  readonly ipv4Interface: string
  readonly ipv6: string
  readonly ipv6Interface: string
}

/**
 * The first address of the interface with the default route, for each protocol. Spawns nothing.
 * Source: /proc/net/route and /proc/net/ipv6_route of the agent's network namespace
 */
export async function readPublicAddresses(): Promise<PublicAddresses> {
  const [route4, route6] = await Promise.all([readRoutes('route'), readRoutes('ipv6_route')])
  const interfaces = networkInterfaces()
  const ipv4Interface = parseDefaultInterface(route4)
  const ipv6Interface = parseDefaultInterface6(route6)
  return {
    ipv4: firstAddress(interfaces[ipv4Interface], 'IPv4'),
    ipv4Interface,
    ipv6: firstAddress(interfaces[ipv6Interface], 'IPv6'),
    ipv6Interface,
  }
}

/** All IPv4 addresses of the host's interfaces but loopback. */
export function readHostIpv4(): string[] {
  return Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .filter(({ family, internal }) => family === 'IPv4' && !internal)
    .map(({ address }) => address)
}

async function readRoutes(name: string): Promise<string> {
  // ipv6_route is missing where the kernel has IPv6 switched off.
  return readFile(`/proc/net/${name}`, 'utf8').catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === 'ENOENT') return ''
    throw cause
  })
}

const routeUp = 0x1
const routeReject = 0x200

/** Interface of the IPv4 default route with the lowest metric, from the text of /proc/net/route; empty: none. */
export function parseDefaultInterface(text: string): string {
  const routes = text
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
  const defaults = routes
    .filter(([, destination, , flags = '', , , , mask]) => {
      const bits = parseInt(flags, 16)
      return destination === '00000000' && mask === '00000000' && (bits & routeUp) !== 0
    })
    .sort((a, b) => Number(a[6]) - Number(b[6]))
  return defaults[0]?.[0] ?? ''
}

/** The same from /proc/net/ipv6_route, whose rows end in metric, reference count, use, flags, interface. */
export function parseDefaultInterface6(text: string): string {
  const routes = text.split('\n').map((line) => line.trim().split(/\s+/))
  const defaults = routes
    .filter(([destination = '', length, , , , , , , flags = '', device]) => {
      const bits = parseInt(flags, 16)
      const usable = (bits & routeUp) !== 0 && (bits & routeReject) === 0
      return /^0{32}$/.test(destination) && length === '00' && usable && device !== 'lo'
    })
    .sort((a, b) => parseInt(a[5] ?? '', 16) - parseInt(b[5] ?? '', 16))
  return defaults[0]?.[9] ?? ''
}

function firstAddress(
  addresses: readonly NetworkInterfaceInfo[] | undefined,
  family: 'IPv4' | 'IPv6',
): string {
  const found = addresses?.find((address) => address.family === family && !/^fe[89ab]/i.test(address.address))
  return found?.address ?? ''
}
