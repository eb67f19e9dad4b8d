import type { Socket } from 'node:net'
import { sourceOf } from './source-address.js'

export interface GuardLimits {
  /** Maximum number of connections whose peers have not yet proved their identity. */
  readonly unproven: number
  /** Maximum number of unproven connections from one source (see `sourceOf`). */
  readonly unprovenPerSource: number
  /** Time in ms from the acceptance of a connection within which its peer must prove its identity. */
  readonly proveWithinMs: number
}

interface Unproven {
  readonly socket: Socket
  readonly source: string
  readonly timer: NodeJS.Timeout
}

/** The client of a connection, as Node reports its address and port. */
export interface Peer {
  readonly remoteAddress?: string | undefined
  readonly remotePort?: number | undefined
}

/**
 * Keeps a port reachable for peers that can prove their identity. An unproven connection ends after a time limit. If a
 * source has too many unproven connections, its oldest one ends. If all sources together have too many, the oldest
 * connection of all ends. New connections are never refused.
 */
export class ConnectionGuard {
  /** Connections whose peers have not yet proved their identity, by client address and port. The oldest are first. */
  readonly #unproven = new Map<string, Unproven>()
  readonly #bySource = new Map<string, Set<string>>()

  constructor(private readonly limits: GuardLimits) {}

  watch(socket: Socket): void {
    const key = keyOf(socket)
    const source = sourceOf(socket.remoteAddress ?? '')
    const timer = setTimeout(() => socket.destroy(), this.limits.proveWithinMs).unref()
    // The connection can be reset before other code listens for its errors.
    socket.on('error', () => socket.destroy())
    socket.once('close', () => this.#forget(key, socket))
    this.#unproven.set(key, { socket, source, timer })
    const ofSource = this.#bySource.get(source) ?? new Set()
    this.#bySource.set(source, ofSource.add(key))
    if (ofSource.size > this.limits.unprovenPerSource) this.#end(ofSource)
    if (this.#unproven.size > this.limits.unproven) this.#end(this.#unproven.keys())
  }

  /** Stops watching a connection whose peer has proved its identity. */
  trust(peer: Peer): void {
    if (this.#unproven.size === 0) return
    const key = keyOf(peer)
    this.#forget(key, this.#unproven.get(key)?.socket)
  }

  /** Ends all connections whose peers have not proved their identity. */
  close(): void {
    for (const { socket } of [...this.#unproven.values()]) socket.destroy()
  }

  /** Ends the oldest connection. @param keys keys in `#unproven` to choose from, the oldest connection first */
  #end(keys: Iterable<string>): void {
    const [oldest = ''] = keys
    const found = this.#unproven.get(oldest)
    this.#forget(oldest, found?.socket)
    found?.socket.destroy()
  }

  #forget(key: string, socket: Socket | undefined): void {
    const found = this.#unproven.get(key)
    // The entry stays if it belongs to a newer connection with the same address and port.
    if (found === undefined || found.socket !== socket) return
    clearTimeout(found.timer)
    this.#unproven.delete(key)
    const ofSource = this.#bySource.get(found.source)
    ofSource?.delete(key)
    if (ofSource?.size === 0) this.#bySource.delete(found.source)
  }
}

function keyOf({ remoteAddress = '', remotePort = 0 }: Peer): string {
  return `${remoteAddress} ${remotePort}`
}
