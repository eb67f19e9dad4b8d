import { normalizeCidr } from 'cidr-tools'
import { parseAddress, parseCidrOrAddress } from '../../../shared/addresses.js'
import { invalidField } from '../../../shared/errors.js'

export interface Ipv6Network {
  /** Canonical network address (RFC 5952), without the prefix length. */
  readonly prefix: string
  readonly prefixLength: number
  readonly first: bigint
  readonly last: bigint
}

/** @returns undefined if the text is not an IPv6 network, or has host bits */
export function parseIpv6Network(cidr: string): Ipv6Network | undefined {
  const [prefix = '', length = ''] = cidr.split('/')
  const [range, base] = [parseCidrOrAddress(cidr), parseIpv6(prefix)]
  if (range?.family !== 'ipv6' || base === undefined || !/^\d{1,3}$/.test(length)) return undefined
  if (base !== range.first) return undefined
  return { prefix: formatIpv6(base), prefixLength: Number(length), first: range.first, last: range.last }
}

/**
 * Parses the configured private network of guests.
 * @throws {BerthError} `invalid_field` if the network is not unique local (fc00::/7), or is smaller than a /112
 */
export function parseSubnet6(cidr: string): Ipv6Network {
  const network = parseIpv6Network(cidr)
  if (!network || network.first >> 121n !== 0x7en || network.prefixLength > 112)
    throw invalidField(
      'subnet6',
      `subnet6: must be a unique local network (fc00::/7) with a prefix length of at most 112, not ${cidr}`,
    )
  return network
}

/** @returns the address as a number; undefined if the text is not an IPv6 address, or has a zone */
export function parseIpv6(text: string): bigint | undefined {
  const address = parseAddress(text)
  return address?.family === 'ipv6' ? address.first : undefined
}

/** @returns the canonical text (RFC 5952) */
export function formatIpv6(value: bigint): string {
  const groups = value.toString(16).padStart(32, '0').match(/.{4}/g)!
  return normalizeCidr(groups.join(':'))
}

export function holds({ first, last }: Pick<Ipv6Network, 'first' | 'last'>, address: bigint): boolean {
  return address >= first && address <= last
}

export function overlaps(a: Ipv6Network, b: Ipv6Network): boolean {
  return a.first <= b.last && b.first <= a.last
}
