import { networkInterfaces } from 'node:os'
import { invalidField } from '../../shared/errors.js'
import { parseHostName } from '../../shared/host-name.js'
import { isLoopback } from '../policy/source.js'

/**
 * Parses a name or an address of the gateway.
 * @returns the canonical form: names in ASCII and lower case, addresses as in RFC 5952
 * @throws {BerthError} `invalid_field`
 */
export function parseTarget(text: string): string {
  const target = parseHostName(text)
  if (target !== undefined) return target
  throw invalidField('target', 'target: must be a host name or an IP address, for example "panel.example"')
}

/**
 * Name or address with which a request reached the gateway. If it is a loopback address, returns the first public IPv4
 * address of this host instead. "": neither is known.
 */
export function detectHost(hostHeader: string | undefined): string {
  const host = (hostHeader ?? '').replace(/:\d{1,5}$/, '')
  try {
    const target = parseTarget(host)
    if (!isLoopback(target) && target !== 'localhost') return target
  } catch {
    return firstPublicAddress() // the header contains an invalid host
  }
  return firstPublicAddress()
}

const privateRanges =
  /^(10\.|127\.|169\.254\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.)/

function firstPublicAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((list) => list ?? [])
  return all.find(({ family, address }) => family === 'IPv4' && !privateRanges.test(address))?.address ?? ''
}
