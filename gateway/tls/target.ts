import { networkInterfaces } from 'node:os'
import { parseAddress } from '../../shared/addresses.js'
import { invalidField } from '../../shared/errors.js'
import { isLoopback } from '../policy/source.js'

const label = '(?!-)[a-z0-9-]{1,63}(?<!-)'
const hostName = new RegExp(`^(?=.{1,253}$)${label}(\\.${label})*$`)

/**
 * Reads a name or an address that the gateway is reached at.
 * @returns canonical: names in lower case and ASCII, addresses as RFC 5952 writes them
 * @throws {BerthError} `invalid_field`
 */
export function parseTarget(text: string): string {
  const bare = text.trim().replace(/^\[(.+)\]$/, '$1')
  const address = parseAddress(bare)
  if (address !== undefined) return address.text
  const name = toAscii(bare.replace(/\.$/, ''))
  // A last label of digits is what an address would be that is none (RFC 1123, 2.1).
  if (hostName.test(name) && !/(^|\.)\d+$/.test(name)) return name
  throw invalidField('target', 'target: must be a host name or an address, for example "panel.example"')
}

function toAscii(name: string): string {
  const url = `http://${name}`
  return /^[^/?#@:\s\\%]+$/.test(name) && URL.canParse(url) ? new URL(url).hostname : ''
}

/**
 * The name or address by which a request reached the gateway; for one to this machine itself its first public IPv4
 * address. "": neither is there.
 */
export function detectHost(hostHeader: string | undefined): string {
  const host = (hostHeader ?? '').replace(/:\d{1,5}$/, '')
  try {
    const target = parseTarget(host)
    if (!isLoopback(target) && target !== 'localhost') return target
  } catch {
    return firstPublicAddress() // what the header holds is no host
  }
  return firstPublicAddress()
}

const privateRanges =
  /^(10\.|127\.|169\.254\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.)/

function firstPublicAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((list) => list ?? [])
  return all.find(({ family, address }) => family === 'IPv4' && !privateRanges.test(address))?.address ?? ''
}
