import { parseAddress } from '../../../shared/addresses.js'
import { readKernelFile } from '../process/proc.js'

export interface InterfaceIpv6 {
  readonly interface: string
  /** Address as eight groups of four digits, not shortened. */
  readonly address: string
  readonly prefixLength: number
  readonly scope: 'global' | 'link' | 'host' | 'other'
  /** True for a privacy address, which changes over time (RFC 8981). */
  readonly temporary: boolean
  readonly deprecated: boolean
  /** True if duplicate address detection is still running or has failed. */
  readonly tentative: boolean
}

/** Reads all addresses of the agent's network namespace; undefined if the kernel has no IPv6. Starts no process. */
export function findIpv6Addresses(): InterfaceIpv6[] | undefined {
  const text = readKernelFile('/proc/net/if_inet6')
  return text === undefined ? undefined : parseIfInet6(text)
}

/** True if all addresses exist in the network namespace of a process, on any interface. Starts no process. */
export function hasIpv6Addresses(pid: number, addresses: readonly string[]): boolean {
  if (addresses.length === 0) return true
  // The text is searched instead of parsed, because a guest can have any number of addresses.
  const text = `\n${readKernelFile(`/proc/${pid}/net/if_inet6`) ?? ''}`
  return addresses.every((address) => text.includes(`\n${digitsOf(address)} `))
}

function digitsOf(address: string): string {
  return (parseAddress(address)?.first ?? 0n).toString(16).padStart(32, '0')
}

/** Scopes by their numbers in /proc/net/if_inet6, which are IPV6_ADDR_* masks (linux/ipv6.h, net/addrconf.h). */
const scopes: Readonly<Record<number, InterfaceIpv6['scope']>> = { 0: 'global', 0x10: 'host', 0x20: 'link' }
/** Flags of addresses (linux/if_addr.h). */
const flag = { temporary: 0x01, dadFailed: 0x08, deprecated: 0x20, tentative: 0x40 } as const

/** Parses /proc/net/if_inet6. Rows contain address, index, prefix length, scope and flags in hex, and the name. */
export function parseIfInet6(text: string): InterfaceIpv6[] {
  return text.split('\n').flatMap((line) => {
    const [address = '', , length = '', scope = '', flags = '', device] = line.trim().split(/\s+/)
    if (device === undefined) return []
    const has = (...bits: number[]): boolean => bits.some((bit) => (parseInt(flags, 16) & bit) !== 0)
    return {
      interface: device,
      address: address.match(/.{4}/g)!.join(':'),
      prefixLength: parseInt(length, 16),
      scope: scopes[parseInt(scope, 16)] ?? 'other',
      temporary: has(flag.temporary),
      deprecated: has(flag.deprecated),
      tentative: has(flag.tentative, flag.dadFailed),
    }
  })
}
