import type { Socket } from 'node:net'
import type { AccessPolicies } from './access-policy.js'
import type { Origin } from './source.js'

/**
 * Open sockets, and the origin of the last request on each. If a new policy excludes the origin of a socket, the socket
 * is closed, even if it is idle or sends a stream.
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

  /** Forgets a socket, because another part of the gateway will close it and tell the client the reason. */
  forget(socket: Socket): void {
    this.#origins.delete(socket)
  }

  #shutExcluded(): void {
    for (const [socket, origin] of [...this.#origins]) if (!this.policies.judge(origin).allowed) socket.destroy()
  }
}
