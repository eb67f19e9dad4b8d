import type { Server } from 'node:http'
import type { Server as HttpsServer } from 'node:https'
import type { Duplex } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { ConnectionGuard } from '../../shared/connection-guard.js'
import type { PipelinedRequests } from './pipelined-requests.js'

export interface ConnectionsParts {
  readonly server: Server | HttpsServer
  readonly requests: PipelinedRequests
  /** Watches connections without a request. */
  readonly guard: ConnectionGuard
}

/** Longer than any answer but a stream takes. */
const answersWithinMs = 180_000
/** Time for the first request of a connection that was accepted just before the end. */
const firstRequestMs = 1000
const idleCheckMs = 50

/** The connections of a server, and their end without a failed request. */
export class Connections {
  readonly #open = new Set<Duplex>()
  /** Connections that Node's server no longer knows, since their requests were presented to it as an upgrade. */
  readonly #detached = new Set<Duplex>()

  constructor(private readonly parts: ConnectionsParts) {}

  add(connection: Duplex): void {
    this.#open.add(connection)
    connection.once('close', () => this.#open.delete(connection))
  }

  /** Another protocol uses the connection from now on. */
  forget(connection: Duplex): void {
    this.#open.delete(connection)
  }

  /** Bounds a connection that waits for its last answers. Nothing more is read from it. */
  detach(connection: Duplex): void {
    this.forget(connection)
    const end = (): void => void connection.destroy()
    const timer = setTimeout(end, answersWithinMs).unref()
    this.#detached.add(connection)
    connection.on('error', end).once('close', () => {
      clearTimeout(timer)
      this.#detached.delete(connection)
    })
  }

  /**
   * Has clients change to new connections: each answer closes its connection, and new ones are still accepted. So no
   * request meets the end of its connection, except on connections that stay unused.
   * @param lingerMs longest time for the next request of an idle connection
   */
  async drain(lingerMs: number): Promise<void> {
    const { requests } = this.parts
    requests.closeConnections()
    const former = [...this.#open]
    const isIdle = (one: Duplex): boolean => this.#open.has(one) && !requests.isBusy(one)
    for (const until = performance.now() + lingerMs; performance.now() < until && former.some(isIdle);)
      await delay(idleCheckMs)
  }

  /** Accepts no more connections, waits up to `graceMs` for requests in progress, then aborts them. */
  close(graceMs: number): Promise<void> {
    const { server, requests, guard } = this.parts
    requests.closeConnections()
    return new Promise((resolve) => {
      const cut = setTimeout(() => this.#abort(), graceMs)
      const strangers = setTimeout(() => guard.close(), firstRequestMs)
      const sweep = setInterval(() => server.closeIdleConnections(), idleCheckMs)
      server.close(() => {
        for (const timer of [cut, strangers, sweep]) clearTimeout(timer)
        resolve()
      })
    })
  }

  #abort(): void {
    this.parts.server.closeAllConnections()
    for (const connection of this.#detached) connection.destroy()
  }
}
