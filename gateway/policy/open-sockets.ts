import type { Socket } from 'node:net'
import type { AccessPolicies } from './access-policy.js'
import type { Origin } from './source.js'

/**
 * Open sockets and the origins of their last requests. When a new policy excludes an address, its sockets are closed,
 * including streams and idle connections.
 */
export class OpenSockets {
  readonly #origins = new Map<Socket, Origin>()

  constructor(private readonly policies: Pick<AccessPolicies, 'judge' | 'onChange'>) {
    policies.onChange(() => this.#shutExcluded())
  }

  /** Remembers the origin of a request on its socket. */
  note(socket: Socket, origin: Origin): void {
    if (!this.#origins.has(socket)) socket.once('close', () => this.forget(socket))
    this.#origins.set(socket, origin)
  }

  /** Forgets a socket that another part of the gateway will close with a reason. */
  forget(socket: Socket): void {
    this.#origins.delete(socket)
  }

  #shutExcluded(): void {
    for (const [socket, origin] of [...this.#origins]) if (!this.policies.judge(origin).allowed) socket.destroy()
  }
}
