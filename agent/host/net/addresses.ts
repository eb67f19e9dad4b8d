import { networkInterfaces, type NetworkInterfaceInfo } from 'node:os'
import { parseAddress } from '../../../shared/addresses.js'
import { isVirtual } from './interfaces.js'
import { findIpv6Addresses } from './ipv6-addresses.js'
import { readKernelFile } from '../process/proc.js'

/** Addresses at which clients reach the host. Empty if the host has no such address. */
export interface PublicAddresses {
  readonly ipv4: string
  readonly ipv4Interface: string
  readonly ipv6: string
  readonly ipv6Interface: string
}

/**
 * For each protocol, returns the first address of the interface with the default route. Prefers interfaces with
 * hardware. Reads /proc/net/route and /proc/net/ipv6_route of the agent's network namespace. Starts no process.
 */
export function readPublicAddresses(): PublicAddresses {
  const [own, all] = [readDefaultRoutes((device) => !isVirtual(device)), readDefaultRoutes()]
  const { ipv4, ipv6 } = { ipv4: own.ipv4 ?? all.ipv4, ipv6: own.ipv6 ?? all.ipv6 }
  const interfaces = networkInterfaces()
  const ipv4Interface = ipv4?.interface ?? ''
  const ipv6Interface = ipv6?.interface ?? ''
  return {
    ipv4: firstAddress(interfaces[ipv4Interface], 'IPv4'),
    ipv4Interface,
    ipv6: firstAddress(interfaces[ipv6Interface], 'IPv6'),
    ipv6Interface,
  }
}

/** An IPv4 address of an interface that is up. */
export interface InterfaceIpv4 {
  readonly interface: string
  readonly address: string
  readonly prefixLength: number
}

/** Lists all IPv4 addresses of the host, including loopback. Each interface's oldest address comes first. */
export function listIpv4Addresses(): InterfaceIpv4[] {
  return Object.entries(networkInterfaces()).flatMap(([name, addresses = []]) =>
    addresses.flatMap(({ family, address, cidr }) =>
      family === 'IPv4' ? [{ interface: name, address, prefixLength: Number(cidr?.split('/')[1] ?? 32) }] : [],
    ),
  )
}

/** Lists the canonical addresses of all interfaces except the loopback. Omits IPv6 addresses that are not global. */
export function listHostAddresses(family: 'ipv4' | 'ipv6'): string[] {
  if (family === 'ipv6') {
    const global = (findIpv6Addresses() ?? []).filter(({ scope }) => scope === 'global')
    return global.map(({ address }) => parseAddress(address)?.text ?? '')
  }
  return Object.values(networkInterfaces())
    .flatMap((addresses) => addresses ?? [])
    .filter((item) => item.family === 'IPv4' && !item.internal)
    .map(({ address }) => address)
}

const routeUp = 0x1
const routeGateway = 0x2
const routeReject = 0x200

export interface DefaultRoute {
  readonly interface: string
  /** Address of the gateway. Empty if the link has no gateway. */
  readonly gateway: string
}

/** The host's default route for each protocol. Undefined: the protocol has no default route. */
export interface DefaultRoutes {
  readonly ipv4: DefaultRoute | undefined
  readonly ipv6: DefaultRoute | undefined
}

/**
 * Reads the default routes. Starts no process.
 * @param isMeant true for interfaces whose routes count; default: all interfaces
 */
export function readDefaultRoutes(isMeant: (device: string) => boolean = () => true): DefaultRoutes {
  const choose = (routes: readonly DefaultRoute[]): DefaultRoute | undefined =>
    routes.find((route) => isMeant(route.interface))
  return {
    ipv4: choose(parseDefaultRoutes(readKernelFile('/proc/net/route') ?? '')),
    // The file does not exist if IPv6 is switched off in the kernel.
    ipv6: choose(parseDefaultRoutes6(readKernelFile('/proc/net/ipv6_route') ?? '')),
  }
}

/** Parses /proc/net/route. @returns the IPv4 default routes, the lowest metric first */
export function parseDefaultRoutes(text: string): DefaultRoute[] {
  const routes = text
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
  return routes
    .filter(([, destination, , flags = '', , , , mask]) => {
      const bits = parseInt(flags, 16)
      return destination === '00000000' && mask === '00000000' && (bits & routeUp) !== 0
    })
    .sort((a, b) => Number(a[6]) - Number(b[6]))
    .map(([device = '', , gateway = '', flags = '']) => {
      const hasGateway = (parseInt(flags, 16) & routeGateway) !== 0
      return { interface: device, gateway: hasGateway ? bytesOf(gateway).reverse().join('.') : '' }
    })
}

/** Parses the default routes in /proc/net/ipv6_route. Rows end in metric, reference count, use, flags, interface. */
export function parseDefaultRoutes6(text: string): DefaultRoute[] {
  const toAll = `${'0'.repeat(32)} 00 ` // destination ::/0; guests add routes to other destinations
  const rows = text.split('\n').filter((line) => line.startsWith(toAll))
  return rows
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , , , , , , , flags = '', device]) => {
      const bits = parseInt(flags, 16)
      return (bits & routeUp) !== 0 && (bits & routeReject) === 0 && device !== 'lo'
    })
    .sort((a, b) => parseInt(a[5] ?? '', 16) - parseInt(b[5] ?? '', 16))
    .map(([, , , , gateway = '', , , , , device = '']) => ({
      interface: device,
      gateway: /^0*$/.test(gateway) ? '' : gateway.match(/.{4}/g)!.join(':'),
    }))
}

/** Parses the bytes of an address that the kernel prints in hex. IPv4 addresses are in little-endian order. */
function bytesOf(hex: string): number[] {
  return hex.match(/../g)!.map((byte) => parseInt(byte, 16))
}

function firstAddress(addresses: readonly NetworkInterfaceInfo[] | undefined, family: 'IPv4' | 'IPv6'): string {
  const found = addresses?.find((address) => address.family === family && !/^fe[89ab]/i.test(address.address))
  return found?.address ?? ''
}
