import type { Socket } from 'node:net'
import { sourceOf } from './source-address.js'

export interface GuardLimits {
  /** Connections at once whose peer has not shown yet who it is. */
  readonly unproven: number
  /** Of them from one source, see `sourceOf`. */
  readonly unprovenPerSource: number
  /** They have this long to show it, from the first packet on. */
  readonly proveWithinMs: number
}

interface Unproven {
  readonly socket: Socket
  readonly source: string
  readonly timer: NodeJS.Timeout
}

/** How both ends of a connection name its client. */
export interface Peer {
  readonly remoteAddress?: string | undefined
  readonly remotePort?: number | undefined
}

/**
 * Keeps a port open for peers that can prove who they are: of those that have not yet the oldest is ended where
 * there are too many, first of the source that opens too many, and each after a while. Nobody new is ever refused.
 */
export class ConnectionGuard {
  /** In the order in which they came. */
  readonly #unproven = new Map<string, Unproven>()
  readonly #bySource = new Map<string, Set<string>>()

  constructor(private readonly limits: GuardLimits) {}

  /** Takes a connection that was just made under watch. */
  watch(socket: Socket): void {
    const key = keyOf(socket)
    const source = sourceOf(socket.remoteAddress ?? '')
    const timer = setTimeout(() => socket.destroy(), this.limits.proveWithinMs).unref()
    // A reset before anything reads from it has nobody else to hear of it.
    socket.on('error', () => socket.destroy())
    socket.once('close', () => this.#forget(key, socket))
    this.#unproven.set(key, { socket, source, timer })
    const ofSource = this.#bySource.get(source) ?? new Set()
    this.#bySource.set(source, ofSource.add(key))
    if (ofSource.size > this.limits.unprovenPerSource) this.#end(ofSource)
    if (this.#unproven.size > this.limits.unproven) this.#end(this.#unproven.keys())
  }

  /** Its peer has shown who it is: the connection may stay. */
  trust(peer: Peer): void {
    if (this.#unproven.size === 0) return
    const key = keyOf(peer)
    this.#forget(key, this.#unproven.get(key)?.socket)
  }

  /** Ends all that have proven nothing. */
  close(): void {
    for (const { socket } of [...this.#unproven.values()]) socket.destroy()
  }

  /** The first of them is the oldest. */
  #end(keys: Iterable<string>): void {
    const [oldest = ''] = keys
    const found = this.#unproven.get(oldest)
    this.#forget(oldest, found?.socket)
    found?.socket.destroy()
  }

  #forget(key: string, socket: Socket | undefined): void {
    const found = this.#unproven.get(key)
    // The same port of the same peer may be another connection by now.
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
