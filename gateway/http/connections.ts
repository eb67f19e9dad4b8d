import type { Server } from 'node:http'
import type { Server as HttpsServer } from 'node:https'
import type { Duplex } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { ConnectionGuard } from '../../shared/connection-guard.js'
import type { PipelinedRequests } from './pipelined-requests.js'

export interface ConnectionsParts {
  readonly server: Server | HttpsServer
  readonly requests: PipelinedRequests
  /** Limits connections that have not sent a request. */
  readonly guard: ConnectionGuard
}

/** Time limit in ms for the last answers on a connection after `detach`. Only streams can exceed it. */
const answersWithinMs = 180_000
/** Time in ms after `close` in which a connection that has sent nothing yet can still send its first request. */
const firstRequestMs = 1000
const idleCheckMs = 50

/** The connections of a server. Closing them never makes a request fail. */
export class Connections {
  readonly #open = new Set<Duplex>()
  /** Connections that Node's server no longer closes, because Node has treated one of their requests as an upgrade. */
  readonly #detached = new Set<Duplex>()

  constructor(private readonly parts: ConnectionsParts) {}

  add(connection: Duplex): void {
    this.#open.add(connection)
    connection.once('close', () => this.#open.delete(connection))
  }

  /** Stops tracking a connection, because it now belongs to another protocol. */
  forget(connection: Duplex): void {
    this.#open.delete(connection)
  }

  /** Reads no further requests from a connection. Closes it if its last answers take too long. */
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
   * Closes each open connection after its next answer. New connections are still accepted, and clients change to them.
   * A request can therefore only fail on a connection that is idle during the whole wait.
   * @param lingerMs maximum time in ms to wait for the next requests of idle connections
   */
  async drain(lingerMs: number): Promise<void> {
    const { requests } = this.parts
    requests.closeConnections()
    const former = [...this.#open]
    const isIdle = (one: Duplex): boolean => this.#open.has(one) && !requests.isBusy(one)
    for (const until = performance.now() + lingerMs; performance.now() < until && former.some(isIdle);)
      await delay(idleCheckMs)
  }

  /** Accepts no more connections. Waits up to `graceMs` for requests in progress, and then aborts them. */
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
