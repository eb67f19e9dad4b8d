import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { AddressSet } from '../access/addresses.js'

/** The parts of a request from which its client is determined. */
export interface Origin {
  /** Address of the other end of the connection. */
  readonly peer: string
  readonly headers: IncomingHttpHeaders
  /** True if the connection is encrypted with TLS. Default: false. */
  readonly encrypted?: boolean
}

export function originOf({ socket, headers }: IncomingMessage): Origin {
  const encrypted = (socket as Partial<TLSSocket>).encrypted === true
  return { peer: socket.remoteAddress ?? '', headers, encrypted }
}

/**
 * True if the client's connection is encrypted with TLS. If a trusted proxy sends X-Forwarded-Proto, all hops in this
 * header must be encrypted. Without the header, the connection to this gateway must be encrypted.
 * @param trusted trusted proxies; undefined if no proxy is trusted
 */
export function isSecure({ peer, headers, encrypted }: Origin, trusted: AddressSet | undefined): boolean {
  const forwarded = headers['x-forwarded-proto']
  if (forwarded === undefined || !trusted?.has(plainAddress(peer))) return encrypted === true
  return String(forwarded)
    .split(',')
    .every((scheme) => scheme.trim().toLowerCase() === 'https')
}

/** Address of the client, as far as it is known with certainty. */
export interface Source {
  /** Address of the client, or else of the last known proxy. It has no zone index. IPv4-mapped IPv6 becomes IPv4. */
  readonly address: string
  /** False if a trusted proxy sent an invalid address of its client. `address` is then the proxy's own address. */
  readonly valid: boolean
}

/** Maximum number of addresses in X-Forwarded-For. Longer lists are not trusted. */
const maxHops = 32

/**
 * Determines the client's address. From an untrusted peer, it is the peer's address. From a trusted proxy,
 * X-Forwarded-For is read from the right up to the first address that is not a trusted proxy. Without this header,
 * X-Real-IP is used. If X-Real-IP is missing, too, CF-Connecting-IP is used.
 * @param trusted trusted proxies; undefined if no proxy is trusted
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

/** Removes the port that some proxies add, as in `192.0.2.1:4711` and `[2001:db8::1]:443`. */
function withoutPort(text: string): string {
  const [, v4, v6] = /^(?:([\d.]+):\d{1,5}|\[([^\]]+)\](?::\d{1,5})?)$/.exec(text) ?? []
  return v4 ?? v6 ?? text
}

/** Removes a zone index, and converts IPv4-mapped IPv6 to IPv4. */
function plainAddress(text: string): string {
  const bare = text.split('%', 1)[0] ?? ''
  return bare.toLowerCase().startsWith('::ffff:') && isIP(bare.slice(7)) === 4 ? bare.slice(7) : bare
}

export function isLoopback(peer: string): boolean {
  return peer === '::1' || /^(::ffff:)?127\./i.test(peer)
}

const forwardingHeaders = ['forwarded', 'x-real-ip', 'cf-connecting-ip', 'via']

/** True if a proxy has forwarded the request. If false, the peer of the connection is the client. */
export function isForwarded(headers: IncomingHttpHeaders): boolean {
  if (forwardingHeaders.some((name) => headers[name] !== undefined)) return true
  return Object.keys(headers).some((name) => name.startsWith('x-forwarded-'))
}
