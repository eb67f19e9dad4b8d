import { isIP } from 'node:net'
import { normalizeCidr, parseCidr } from 'cidr-tools'

/*
 * Addresses as users write them. ip-bigint, below cidr-tools, does not validate, and isIP takes a zone
 * (fe80::1%eth0), which nothing here can mean.
 */

export type AddressFamily = 'ipv4' | 'ipv6'

/** An address, a CIDR or a range, as its first and last address. */
export interface AddressRange {
  readonly family: AddressFamily
  readonly first: bigint
  readonly last: bigint
  /** Canonical, in the form it came in: RFC 5952, host bits cleared, a range of one as that address. */
  readonly text: string
}

/** @returns undefined for what is no single address */
export function parseAddress(text: string): AddressRange | undefined {
  const family = familyOf(text)
  return family && rangeOf(family, text)
}

/** @returns undefined unless an address or `ADDRESS/LENGTH` */
export function parseCidrOrAddress(text: string): AddressRange | undefined {
  const [address = '', length, ...rest] = text.split('/')
  const family = familyOf(address)
  if (family === undefined || rest.length > 0) return undefined
  if (length === undefined) return rangeOf(family, address)
  if (!/^\d{1,3}$/.test(length) || Number(length) > bitsOf(family)) return undefined
  return rangeOf(family, `${address}/${Number(length)}`)
}

/** @returns undefined unless an address, a CIDR, or `A-B` of one family in ascending order */
export function parseAddressRange(text: string): AddressRange | undefined {
  const [from = '', to, ...rest] = text.split('-').map((part) => part.trim())
  if (to === undefined) return parseCidrOrAddress(from)
  const [first, last] = [parseAddress(from), parseAddress(to)]
  if (!first || !last || rest.length > 0) return undefined
  if (first.family !== last.family || first.first > last.last) return undefined
  if (first.first === last.last) return first
  return { family: first.family, first: first.first, last: last.last, text: `${first.text}-${last.text}` }
}

function familyOf(address: string): AddressFamily | undefined {
  if (address.includes('%')) return undefined
  const version = isIP(address)
  return version === 4 ? 'ipv4' : version === 6 ? 'ipv6' : undefined
}

function bitsOf(family: AddressFamily): number {
  return family === 'ipv4' ? 32 : 128
}

function rangeOf(family: AddressFamily, valid: string): AddressRange {
  const { start, end } = parseCidr(valid)
  return { family, first: start, last: end, text: canonical(valid) }
}

/** A CIDR of one address is that address. */
function canonical(valid: string): string {
  return normalizeCidr(valid).replace(/^([\d.]+)\/32$|^([^/]+)\/128$/, '$1$2')
}
