import { BerthError } from '../../../shared/errors.js'
import type { AgentConnection } from './agent-connection.js'
import type { KeyedCondition } from '../../../shared/async/keyed-condition.js'
import type { HostState } from '../host-state.js'
import type { PauseWatch } from '../pause-watch.js'

export interface AgentLinkParts {
  readonly host: HostState
  /** Condition that is notified, by host id, when the host's connection or state changes. */
  readonly hostChanged: KeyedCondition
  /** Time in ms for which a host that has lost its connection still counts as online. */
  readonly reconnectMs: number
  /** Watcher of the host. Its `connection` is `undefined` without a live stream or with an invalid certificate. */
  readonly watcher: { readonly connection: AgentConnection | undefined }
  /** Time in ms that calls may wait for the host after the gateway's start. 0: the host is not expected to connect. */
  expectedMs(): number
  readonly pauses: Pick<PauseWatch, 'check'>
}

/**
 * Finds the connection for calls to one host. Calls to an online host wait for its next connection. Shortly after the
 * gateway's start, calls also wait for offline hosts, because their agents are perhaps restarting, too.
 */
export class AgentLink {
  /** The connection from before the last pause of this process. It can be broken, so calls prefer a new connection. */
  #suspect: AgentConnection | undefined
  readonly #cancels = new Set<() => void>()

  constructor(private readonly parts: AgentLinkParts) {}

  get isUsable(): boolean {
    return this.parts.host.online || this.parts.watcher.connection !== undefined || this.awaitedMs > 0
  }

  /** Time in ms that calls may wait after the gateway's start. 0: the host is connected, or not expected to connect. */
  get awaitedMs(): number {
    return this.parts.watcher.connection ? 0 : this.parts.expectedMs()
  }

  /** Returns a connection that is ready. `undefined`: callers have to wait for one. */
  ready(): AgentConnection | undefined {
    this.lastPauseMs()
    const current = this.parts.watcher.connection
    return current === this.#suspect ? undefined : current
  }

  /**
   * Waits for a connection. For an online host, waits at most `reconnectMs`. For an offline host, waits only shortly
   * after the gateway's start, when hosts are expected to connect.
   * @param failed a connection that has just failed and must not be returned
   * @throws {BerthError} `host_offline`
   */
  async connected(failed?: AgentConnection): Promise<AgentConnection> {
    const { host, hostChanged, reconnectMs } = this.parts
    const findOther = (): AgentConnection | undefined => {
      const found = this.ready()
      return found === failed ? undefined : found
    }
    const timeoutMs = host.online ? reconnectMs : this.awaitedMs
    await hostChanged.wait(host.record.id, timeoutMs, () => findOther() !== undefined || !this.isUsable)
    const connection = findOther() ?? (failed ? undefined : this.parts.watcher.connection)
    if (!connection) throw offlineError(host)
    return connection
  }

  /** Detects a pause of this process, even before timers do. @returns monotonic time in ms when the last pause ended */
  lastPauseMs(): number {
    return this.parts.pauses.check()
  }

  /** Call this after a pause of this process. Calls then wait up to `reconnectMs` for a new connection to the host. */
  distrust(): void {
    const suspect = (this.#suspect = this.parts.watcher.connection)
    setTimeout(() => {
      if (this.#suspect === suspect) this.#suspect = undefined
    }, this.parts.reconnectMs).unref()
  }

  /** Calls `cancel` when the host goes offline. @returns a function that removes this callback */
  whileOnline(cancel: () => void): () => void {
    this.#cancels.add(cancel)
    return () => this.#cancels.delete(cancel)
  }

  /** Cancels all calls to the host that are in progress. Call it when the host has gone offline. */
  cancelCalls(): void {
    for (const cancel of [...this.#cancels]) cancel()
  }
}

export function offlineError({ record }: HostState): BerthError {
  return new BerthError(
    'unavailable',
    'host_offline',
    `host ${record.name} is not connected to the gateway: try again later`,
  )
}
