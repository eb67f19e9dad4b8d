import { BerthError } from '../../shared/errors.js'

/** An IPv4 subnet, with its addresses as numbers. */
export interface Subnet {
  /** Canonical form, for example `10.64.0.0/16`. */
  readonly cidr: string
  readonly prefixLength: number
  /** First host address of the subnet, as text. */
  readonly gateway: string
  /** First and last address that a guest can have, as numbers. */
  readonly first: number
  readonly last: number
}

/** @throws {BerthError} `invalid_field` if the text is not a subnet from /8 to /29, or has host bits */
export function parseSubnet(cidr: string): Subnet {
  const [, address = '', length = ''] = /^([\d.]+)\/(\d{1,2})$/.exec(cidr) ?? []
  const base = parseIpv4(address)
  const prefixLength = Number(length)
  if (base === undefined || prefixLength < 8 || prefixLength > 29)
    throw invalid(cidr, 'must be an IPv4 subnet with a prefix length of 8 to 29')
  const size = 2 ** (32 - prefixLength)
  if (base % size !== 0) throw invalid(cidr, 'must be a network address: it has bits set after its prefix length')
  return {
    cidr: `${formatIpv4(base)}/${prefixLength}`,
    prefixLength,
    gateway: formatIpv4(base + 1),
    first: base + 2,
    last: base + size - 2,
  }
}

/** @returns the address as a number; undefined if the text is not four decimal octets, or has leading zeros */
export function parseIpv4(text: string): number | undefined {
  const octets = text.split('.')
  if (octets.length !== 4 || !octets.every((octet) => /^(0|[1-9]\d{0,2})$/.test(octet) && Number(octet) < 256))
    return undefined
  return octets.reduce((sum, octet) => sum * 256 + Number(octet), 0)
}

export function formatIpv4(value: number): string {
  return [24, 16, 8, 0].map((shift) => (value >>> shift) & 255).join('.')
}

/**
 * Derives the MAC address of a guest or of the bridge from its IPv4 address: 02:be and the four octets. The MAC is
 * locally administered, unicast, and as unique as the IPv4 address.
 */
export function macOf(ipv4: string): string {
  const value = parseIpv4(ipv4)
  if (value === undefined) throw invalid(ipv4, 'must be an IPv4 address')
  return `02:be:${value.toString(16).padStart(8, '0').match(/../g)!.join(':')}`
}

function invalid(value: string, rule: string): BerthError {
  return new BerthError('invalid', 'invalid_field', `${value}: ${rule}`, { field: 'subnet' })
}
