import { BerthError } from '../../../shared/errors.js'
import type { AgentConnection } from './agent-connection.js'
import type { KeyedCondition } from '../../../shared/async/keyed-condition.js'
import type { HostState } from '../host-state.js'
import type { PauseWatch } from '../pause-watch.js'

export interface AgentLinkParts {
  readonly host: HostState
  /** Notified under the host's id when its connection or state changes. */
  readonly hostChanged: KeyedCondition
  /** How long a host stays online without a connection. */
  readonly reconnectMs: number
  /** `connection`: the connection of the live stream, while its certificates are valid. */
  readonly watcher: { readonly connection: AgentConnection | undefined }
  readonly pauses: Pick<PauseWatch, 'check'>
}

/** Link to one host's agent. It outlives connections: while the host is online, calls wait for the next connection. */
export class AgentLink {
  /** A connection that may be dead without an error; used only if no new one arrives in time. */
  #suspect: AgentConnection | undefined
  readonly #cancels = new Set<() => void>()

  constructor(private readonly parts: AgentLinkParts) {}

  get isUsable(): boolean {
    return this.parts.host.online || this.parts.watcher.connection !== undefined
  }

  /** A ready connection; undefined if callers have to wait for one. */
  ready(): AgentConnection | undefined {
    this.lastPauseMs()
    const current = this.parts.watcher.connection
    return current === this.#suspect ? undefined : current
  }

  /**
   * Waits up to `reconnectMs` while the host is online.
   * @param failed a connection that just failed and must not be returned
   * @throws {BerthError} `host_offline`
   */
  async connected(failed?: AgentConnection): Promise<AgentConnection> {
    const { host, hostChanged, reconnectMs } = this.parts
    const findOther = (): AgentConnection | undefined => {
      const found = this.ready()
      return found === failed ? undefined : found
    }
    await hostChanged.wait(host.record.id, reconnectMs, () => findOther() !== undefined || !this.isUsable)
    const connection = findOther() ?? (failed ? undefined : this.parts.watcher.connection)
    if (!connection) throw offlineError(host)
    return connection
  }

  /** End of the last pause of this process, by the monotonic clock. It detects a pause before timers do. */
  lastPauseMs(): number {
    return this.parts.pauses.check()
  }

  /** Call it after a pause of this process: calls then wait up to `reconnectMs` for the watcher's new connection. */
  distrust(): void {
    const suspect = (this.#suspect = this.parts.watcher.connection)
    setTimeout(() => {
      if (this.#suspect === suspect) this.#suspect = undefined
    }, this.parts.reconnectMs).unref()
  }

  /** Calls `cancel` when the host goes offline, unless the returned function was called before. */
  whileOnline(cancel: () => void): () => void {
    this.#cancels.add(cancel)
    return () => this.#cancels.delete(cancel)
  }

  /** Call it when the host went offline: cancels all waiting calls. */
  cancelCalls(): void {
    for (const cancel of [...this.#cancels]) cancel()
  }
}

export function offlineError({ record }: HostState): BerthError {
  return new BerthError('unavailable', 'host_offline', `host ${record.name} is not connected`)
}
