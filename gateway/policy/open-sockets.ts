import type { Socket } from 'node:net'
import type { AccessPolicies } from './access-policy.js'
import type { Origin } from './source.js'

/**
 * The open sockets of requests, each with the source of its last request. A policy that excludes a source closes its
 * sockets: streams end, and so do idle connections.
 */
export class OpenSockets {
  readonly #origins = new Map<Socket, Origin>()

  constructor(private readonly policies: Pick<AccessPolicies, 'judge' | 'onChange'>) {
    policies.onChange(() => this.#shutExcluded())
  }

  /** Records a request on a socket. */
  note(socket: Socket, origin: Origin): void {
    if (!this.#origins.has(socket)) socket.once('close', () => this.forget(socket))
    this.#origins.set(socket, origin)
  }

  /** Stops watching a socket whose new owner ends it with a reason. */
  forget(socket: Socket): void {
    this.#origins.delete(socket)
  }

  #shutExcluded(): void {
    for (const [socket, origin] of [...this.#origins]) if (!this.policies.judge(origin).allowed) socket.destroy()
  }
}
