import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { AddressSet, parseAddressList } from '../access/addresses.js'

export type ReadClientAddress = (request: IncomingMessage) => string

/**
 * Reads the client's address: the peer's, or, going through X-Forwarded-For from the right, the first that is no
 * trusted proxy. Text that is no address ends this at the proxy that sent it. Without X-Forwarded-For from a trusted
 * peer its X-Real-IP counts, or else its CF-Connecting-IP.
 * @param trustedProxies addresses or CIDRs
 * @throws {BerthError} `invalid_field` for an invalid one
 */
export function createClientAddressReader(trustedProxies: readonly string[]): ReadClientAddress {
  if (trustedProxies.length === 0) return peerAddress
  const trusted = new AddressSet(parseAddressList('http.trusted_proxies', trustedProxies.join()))
  return (request) => {
    const peer = peerAddress(request)
    if (!trusted.has(peer)) return peer
    const chain = request.headers['x-forwarded-for']
    if (chain !== undefined) return walkForwarded(String(chain).split(','), peer, trusted)
    const single = request.headers['x-real-ip'] ?? request.headers['cf-connecting-ip']
    return single === undefined ? peer : walkForwarded([String(single)], peer, trusted)
  }
}

function walkForwarded(chain: string[], peer: string, trusted: AddressSet): string {
  let nearest = peer
  for (const text of chain.toReversed()) {
    const address = plainAddress(withoutPort(text.trim()))
    if (isIP(address) === 0) return nearest
    nearest = address
    if (!trusted.has(address)) return nearest
  }
  return nearest
}

/** Removes the port that some proxies add: `192.0.2.1:4711`, `[2001:db8::1]:443`. */
function withoutPort(text: string): string {
  const [, v4, v6] = /^(?:([\d.]+):\d{1,5}|\[([^\]]+)\](?::\d{1,5})?)$/.exec(text) ?? []
  return v4 ?? v6 ?? text
}

function peerAddress(request: IncomingMessage): string {
  return plainAddress(request.socket.remoteAddress ?? '')
}

/** IPv4-mapped IPv6 as IPv4, without a zone index. */
function plainAddress(text: string): string {
  const bare = text.split('%', 1)[0] ?? ''
  return bare.toLowerCase().startsWith('::ffff:') && isIP(bare.slice(7)) === 4 ? bare.slice(7) : bare
}
