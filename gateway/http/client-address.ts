import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import proxyAddr from 'proxy-addr'

export type ReadClientAddress = (request: IncomingMessage) => string

/**
 * The client's address: the direct peer's, or, walking X-Forwarded-For from the right, the first one that is
 * no trusted proxy. Text that is no address ends the walk at the proxy that sent it. Where a trusted peer sends
 * no X-Forwarded-For, its X-Real-IP counts, or else its CF-Connecting-IP.
 * @param trustedProxies addresses or CIDRs
 * @throws {TypeError} for one that is neither
 */
export function createClientAddressReader(trustedProxies: readonly string[]): ReadClientAddress {
  if (trustedProxies.length === 0) return peerAddress
  const trust = proxyAddr.compile([...trustedProxies])
  return (request) => {
    const peer = peerAddress(request)
    if (!trust(peer, 0)) return peer
    const chain = request.headers['x-forwarded-for']
    if (chain !== undefined) return walkForwarded(String(chain).split(','), peer, trust)
    const single = request.headers['x-real-ip'] ?? request.headers['cf-connecting-ip']
    return single === undefined ? peer : walkForwarded([String(single)], peer, trust)
  }
}

function walkForwarded(
  chain: string[],
  peer: string,
  trust: (address: string, i: number) => boolean,
): string {
  let nearest = peer
  for (const [hop, text] of chain.toReversed().entries()) {
    const address = plainAddress(withoutPort(text.trim()))
    if (isIP(address) === 0) return nearest
    nearest = address
    if (!trust(address, hop + 1)) return nearest
  }
  return nearest
}

/** Some proxies add the port: `192.0.2.1:4711`, `[2001:db8::1]:443`. */
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
