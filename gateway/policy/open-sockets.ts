import type { Socket } from 'node:net'
import type { AccessPolicies } from './access-policy.js'
import type { Origin } from './source.js'

/**
 * The sockets that requests came by, each with where its last request came from. A policy that excludes one shuts it:
 * what streams over it ends, and so does a connection that waits for its next request.
 */
export class OpenSockets {
  readonly #origins = new Map<Socket, Origin>()

  constructor(private readonly policies: Pick<AccessPolicies, 'judge' | 'onChange'>) {
    policies.onChange(() => this.#shutExcluded())
  }

  /** Notes a request that came by a socket. */
  note(socket: Socket, origin: Origin): void {
    if (!this.#origins.has(socket)) socket.once('close', () => this.forget(socket))
    this.#origins.set(socket, origin)
  }

  /** Leaves a socket to who has taken it over, and ends it with a reason. */
  forget(socket: Socket): void {
    this.#origins.delete(socket)
  }

  #shutExcluded(): void {
    for (const [socket, origin] of [...this.#origins]) if (!this.policies.judge(origin).allowed) socket.destroy()
  }
}
