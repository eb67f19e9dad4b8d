import { BerthError } from '../../shared/errors.js'
import type { AgentConnection } from './agent-connection.js'
import type { ConditionWaiters } from './condition-waiters.js'
import type { HostState } from './host-state.js'

export interface AgentLinkParts {
  readonly host: HostState
  /** Notified under the host's id when its connection or state changes. */
  readonly waiters: ConditionWaiters
  /** How long a host stays online without a connection. */
  readonly reconnectMs: number
  /** The connection of the live watch, while its certificates are valid. */
  connection(): AgentConnection | undefined
  /** When this process last stood still, by the monotonic clock; notices it before timers do. */
  lastPauseMs(): number
}

/** The way to one host's agent. It outlives connections: while the host is online, calls wait for the next one. */
export class AgentLink {
  /** It may be dead without a sign: used only when no other comes in time. */
  #suspect: AgentConnection | undefined
  readonly #cancels = new Set<() => void>()

  constructor(private readonly parts: AgentLinkParts) {}

  get isUsable(): boolean {
    return this.parts.host.online || this.parts.connection() !== undefined
  }

  /** A connection that is ready; undefined where callers have to wait for one. */
  ready(): AgentConnection | undefined {
    this.lastPauseMs()
    const current = this.parts.connection()
    return current === this.#suspect ? undefined : current
  }

  /**
   * Waits up to `reconnectMs` while the host is online.
   * @param failed a connection that just failed: another one is needed
   * @throws {BerthError} `host_offline`
   */
  async connected(failed?: AgentConnection): Promise<AgentConnection> {
    const { host, waiters, reconnectMs } = this.parts
    const findOther = (): AgentConnection | undefined => {
      const found = this.ready()
      return found === failed ? undefined : found
    }
    await waiters.wait(host.record.id, reconnectMs, () => findOther() !== undefined || !this.isUsable)
    const connection = findOther() ?? (failed ? undefined : this.parts.connection())
    if (!connection) throw offlineError(host)
    return connection
  }

  lastPauseMs(): number {
    return this.parts.lastPauseMs()
  }

  /** After this process stood still: calls wait up to `reconnectMs` for the new connection that the watcher makes. */
  distrust(): void {
    const suspect = (this.#suspect = this.parts.connection())
    setTimeout(() => {
      if (this.#suspect === suspect) this.#suspect = undefined
    }, this.parts.reconnectMs).unref()
  }

  /** Calls of `cancel` at the host's going offline, until the returned function is called. */
  whileOnline(cancel: () => void): () => void {
    this.#cancels.add(cancel)
    return () => this.#cancels.delete(cancel)
  }

  /** The host went offline: nobody waits for its answers. */
  cancelCalls(): void {
    for (const cancel of [...this.#cancels]) cancel()
  }
}

export function offlineError({ record }: HostState): BerthError {
  return new BerthError('unavailable', 'host_offline', `host ${record.name} is not connected`)
}
