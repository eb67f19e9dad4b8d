import { isIP } from 'node:net'
import { normalizeCidr, parseCidr } from 'cidr-tools'

/*
 * This module parses addresses as users write them. It validates each text first, because the functions that it calls
 * are too lenient. The parser of cidr-tools (ip-bigint) does not validate. isIP accepts a useless zone (fe80::1%eth0).
 */

export type AddressFamily = 'ipv4' | 'ipv6'

/** The first and the last address of a single address, a CIDR or a range. */
export interface AddressRange {
  readonly family: AddressFamily
  readonly first: bigint
  readonly last: bigint
  /** Canonical text (RFC 5952). A CIDR has no host bits. A CIDR or range with only one address becomes that address. */
  readonly text: string
}

/** @returns undefined if the text is not a single address */
export function parseAddress(text: string): AddressRange | undefined {
  const family = familyOf(text)
  return family && rangeOf(family, text)
}

/** @returns undefined if the text is neither an address nor `ADDRESS/LENGTH` */
export function parseCidrOrAddress(text: string): AddressRange | undefined {
  const [address = '', length, ...rest] = text.split('/')
  const family = familyOf(address)
  if (family === undefined || rest.length > 0) return undefined
  if (length === undefined) return rangeOf(family, address)
  if (!/^\d{1,3}$/.test(length) || Number(length) > bitsOf(family)) return undefined
  return rangeOf(family, `${address}/${Number(length)}`)
}

/** @returns undefined for any text other than an address, a CIDR, or `A-B` with ascending addresses of one family */
export function parseAddressRange(text: string): AddressRange | undefined {
  const [from = '', to, ...rest] = text.split('-').map((part) => part.trim())
  if (to === undefined) return parseCidrOrAddress(from)
  const [first, last] = [parseAddress(from), parseAddress(to)]
  if (!first || !last || rest.length > 0) return undefined
  if (first.family !== last.family || first.first > last.last) return undefined
  if (first.first === last.last) return first
  return { family: first.family, first: first.first, last: last.last, text: `${first.text}-${last.text}` }
}

/** True if the range contains the address. False if one of the texts cannot be parsed. @param range as in `parseAddressRange` */
export function isInRange(address: string, range: string): boolean {
  const [one, all] = [parseAddress(address), parseAddressRange(range)]
  return one?.family === all?.family && !!one && !!all && all.first <= one.first && one.first <= all.last
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

/** Converts a valid CIDR to canonical text. A CIDR with only one address becomes that address. */
function canonical(valid: string): string {
  return normalizeCidr(valid).replace(/^([\d.]+)\/32$|^([^/]+)\/128$/, '$1$2')
}
