import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import proxyAddr from 'proxy-addr'

export type ReadClientAddress = (request: IncomingMessage) => string

/**
 * The client's address: the direct peer's, or, walking X-Forwarded-For from the right, the first one that is
 * no trusted proxy. Text that is no address ends the walk at the proxy that sent it.
 * @param trustedProxies addresses or CIDRs
 * @throws {TypeError} for one that is neither
 */
export function createClientAddressReader(trustedProxies: readonly string[]): ReadClientAddress {
  if (trustedProxies.length === 0) return peerAddress
  const trust = proxyAddr.compile([...trustedProxies])
  return (request) => {
    const peer = peerAddress(request)
    const header = request.headers['x-forwarded-for']
    if (header === undefined || !trust(peer, 0)) return peer
    return walkForwarded(String(header).split(','), peer, trust)
  }
}

function walkForwarded(
  chain: string[],
  peer: string,
  trust: (address: string, i: number) => boolean,
): string {
  let nearest = peer
  for (const [hop, text] of chain.toReversed().entries()) {
    const address = plainAddress(text.trim())
    if (isIP(address) === 0) return nearest
    nearest = address
    if (!trust(address, hop + 1)) return nearest
  }
  return nearest
}

function peerAddress(request: IncomingMessage): string {
  return plainAddress(request.socket.remoteAddress ?? '')
}

/** IPv4-mapped IPv6 as IPv4, without a zone index. */
function plainAddress(text: string): string {
  const bare = text.split('%', 1)[0] ?? ''
  return bare.toLowerCase().startsWith('::ffff:') && isIP(bare.slice(7)) === 4 ? bare.slice(7) : bare
}
