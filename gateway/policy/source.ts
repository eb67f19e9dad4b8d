import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { AddressSet } from '../access/addresses.js'

/** The parts of a request that determine its source. */
export interface Origin {
  /** Address of the socket's peer. */
  readonly peer: string
  readonly headers: IncomingHttpHeaders
  /** True if the connection itself is TLS; default: no. */
  readonly encrypted?: boolean
}

export function originOf({ socket, headers }: IncomingMessage): Origin {
  const encrypted = (socket as Partial<TLSSocket>).encrypted === true
  return { peer: socket.remoteAddress ?? '', headers, encrypted }
}

/**
 * True if a request is under TLS from the client on: to this gateway itself, or to a trusted proxy that states this for
 * each hop in X-Forwarded-Proto.
 * @param trusted undefined: no proxy is trusted
 */
export function isSecure({ peer, headers, encrypted }: Origin, trusted: AddressSet | undefined): boolean {
  const forwarded = headers['x-forwarded-proto']
  if (forwarded === undefined || !trusted?.has(plainAddress(peer))) return encrypted === true
  return String(forwarded)
    .split(',')
    .every((scheme) => scheme.trim().toLowerCase() === 'https')
}

/** The source of a request, as far as it can be trusted. */
export interface Source {
  /** The nearest known address: IPv4-mapped IPv6 as IPv4, without a zone index. */
  readonly address: string
  /** False when a trusted proxy sent an invalid address; then `address` is the proxy's. */
  readonly valid: boolean
}

/** A request through more proxies is not trusted. */
const maxHops = 32

/**
 * The client's address: the peer's, or, going through X-Forwarded-For from the right, the first one that is not a
 * trusted proxy; if all are, the leftmost. Without X-Forwarded-For from a trusted peer its X-Real-IP counts, or else
 * its CF-Connecting-IP.
 * @param trusted undefined: no proxy is trusted
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

/** Removes the port that some proxies add: `192.0.2.1:4711`, `[2001:db8::1]:443`. */
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

/** True if a proxy sent it; a request from this machine without such headers comes from a program on it. */
export function isForwarded(headers: IncomingHttpHeaders): boolean {
  if (forwardingHeaders.some((name) => headers[name] !== undefined)) return true
  return Object.keys(headers).some((name) => name.startsWith('x-forwarded-'))
}
