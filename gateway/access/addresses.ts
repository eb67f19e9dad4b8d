import { BlockList, isIP } from 'node:net'
import { containsCidr, mergeCidr } from 'cidr-tools'
import { parseAddress, parseCidrOrAddress } from '../../shared/addresses.js'
import { invalidField } from '../../shared/errors.js'

const maxEntries = 256

/**
 * Parses a list of addresses and CIDRs, separated by commas or new lines. Empty parts are ignored.
 * @returns canonical entries without duplicates: IPv4-mapped IPv6 becomes IPv4, and the host bits of a CIDR are 0
 * @throws {BerthError} `invalid_field` naming the invalid part
 */
export function parseAddressList(field: string, text: string): string[] {
  const parts = text
    .split(/[,\n]/)
    .map((part) => part.trim())
    .filter((part) => part !== '')
  if (parts.length > maxEntries) throw invalidField(field, `${field}: must have at most ${maxEntries} entries`)
  return [...new Set(parts.map((part) => parseEntry(field, part)))]
}

function parseEntry(field: string, part: string): string {
  const range = parseCidrOrAddress(part)
  if (!range) throw invalidField(field, `${field}: not an IP address or CIDR: ${JSON.stringify(part.slice(0, 60))}`)
  return unmap(range.text)
}

/** Converts ::ffff:10.0.0.1 to 10.0.0.1, and IPv4-mapped CIDRs of /96 and longer to IPv4 (RFC 4291, 2.5.5.2). */
function unmap(entry: string): string {
  const [address = '', prefix] = entry.split('/')
  const mapped = address.replace(/^::ffff:/, '')
  if (mapped === address || (prefix !== undefined && Number(prefix) < 96)) return entry
  const words = /^([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(mapped)?.slice(1)
  const ipv4 = words ? words.map((word) => parseInt(word, 16)).flatMap((word) => [word >> 8, word & 255]) : []
  const text = words ? ipv4.join('.') : mapped
  if (isIP(text) !== 4) return entry
  return prefix === undefined ? text : `${text}/${Number(prefix) - 96}`
}

/** True if every address of `inner` is in `outer`. Both lists must be results of `parseAddressList`. */
export function containsAddresses(outer: readonly string[], inner: readonly string[]): boolean {
  return containsCidr(mergeCidr([...outer]), [...inner])
}

/**
 * A list of addresses for fast look-ups. IPv4 and IPv6 have separate block lists. In a common list, `::/0` would match
 * IPv4 addresses, too.
 */
export class AddressSet {
  readonly #lists = { ipv4: new BlockList(), ipv6: new BlockList() }

  constructor(entries: readonly string[]) {
    for (const entry of entries) {
      const [address = '', prefix] = entry.split('/')
      const family = isIP(address) === 4 ? 'ipv4' : 'ipv6'
      if (prefix === undefined) this.#lists[family].addAddress(address, family)
      else this.#lists[family].addSubnet(address, Number(prefix), family)
    }
  }

  /** @param text address; IPv4-mapped IPv6 counts as IPv4, because a socket for both families reports IPv4 like this */
  has(text: string): boolean {
    const address = parseAddress(text)
    if (!address) return false
    const plain = unmap(address.text)
    const family = isIP(plain) === 4 ? 'ipv4' : 'ipv6'
    return this.#lists[family].check(plain, family)
  }
}
