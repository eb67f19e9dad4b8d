import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import type { AddressSet } from '../access/addresses.js'

/** What of a request says where it comes from. */
export interface Origin {
  /** As the socket shows it. */
  readonly peer: string
  readonly headers: IncomingHttpHeaders
}

export function originOf({ socket, headers }: IncomingMessage): Origin {
  return { peer: socket.remoteAddress ?? '', headers }
}

/** Where a request comes from, as far as that is believed. */
export interface Source {
  /** The nearest address that is known: IPv4-mapped IPv6 as IPv4, without a zone index. */
  readonly address: string
  /** What a trusted proxy says is an address. Where it is not, `address` is the proxy's. */
  readonly valid: boolean
}

/** A request that came by more proxies is not believed. */
const maxHops = 32

/**
 * The client's address: the direct peer's, or, walking X-Forwarded-For from the right, the first one that is no
 * trusted proxy; where all are, the leftmost. Where a trusted peer sends no X-Forwarded-For, its X-Real-IP counts, or
 * else its CF-Connecting-IP.
 * @param trusted undefined: nobody
 */
export function readSource({ peer, headers }: Origin, trusted: AddressSet | undefined): Source {
  const address = plainAddress(peer)
  if (!trusted?.has(address)) return { address, valid: isIP(address) !== 0 }
  const chain = headers['x-forwarded-for']
  if (chain !== undefined && String(chain).trim() !== '')
    return walkForwarded(String(chain).split(','), address, trusted)
  const single = headers['x-real-ip'] ?? headers['cf-connecting-ip']
  return single === undefined ? { address, valid: true } : walkForwarded([String(single)], address, trusted)
}

function walkForwarded(chain: readonly string[], peer: string, trusted: AddressSet): Source {
  if (chain.length > maxHops) return { address: peer, valid: false }
  let nearest = peer
  for (const text of chain.toReversed()) {
    const address = plainAddress(withoutPort(text.trim()))
    if (isIP(address) === 0) return { address: nearest, valid: false }
    nearest = address
    if (!trusted.has(address)) break
  }
  return { address: nearest, valid: true }
}

/** Some proxies add the port: `192.0.2.1:4711`, `[2001:db8::1]:443`. */
function withoutPort(text: string): string {
  const [, v4, v6] = /^(?:([\d.]+):\d{1,5}|\[([^\]]+)\](?::\d{1,5})?)$/.exec(text) ?? []
  return v4 ?? v6 ?? text
}

/** IPv4-mapped IPv6 as IPv4, without a zone index. */
function plainAddress(text: string): string {
  const bare = text.split('%', 1)[0] ?? ''
  return bare.toLowerCase().startsWith('::ffff:') && isIP(bare.slice(7)) === 4 ? bare.slice(7) : bare
}

export function isLoopback(peer: string): boolean {
  return peer === '::1' || /^(::ffff:)?127\./i.test(peer)
}

const forwardingHeaders = ['forwarded', 'x-real-ip', 'cf-connecting-ip', 'via']

/** A proxy sent it: a request from this machine that has none is of a program on it. */
export function isForwarded(headers: IncomingHttpHeaders): boolean {
  if (forwardingHeaders.some((name) => headers[name] !== undefined)) return true
  return Object.keys(headers).some((name) => name.startsWith('x-forwarded-'))
}
