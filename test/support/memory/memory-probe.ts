import type { ConnectOutcome, GuestProbe } from '../../../agent/host/guest/guest-probe.js'
import type { ListeningSocket } from '../../../agent/host/net/listening-ports.js'

/** Listening sockets of guests, and results of connections to them. A test sets the sockets and the results. */
export class MemoryProbe implements GuestProbe {
  listeners: readonly ListeningSocket[] | undefined = [{ port: 22, isReachable: true }]
  /** Results of connection attempts by `address:port`. All other attempts have the result `open`. */
  readonly outcomes = new Map<string, ConnectOutcome>()
  /** Targets of all connection attempts, in order. */
  readonly tried: string[] = []
  /** Every connection attempt waits for this promise. */
  hold: Promise<void> = Promise.resolve()

  async listListeners(): Promise<readonly ListeningSocket[] | undefined> {
    return this.listeners
  }

  async connect(address: string, port: number): Promise<ConnectOutcome> {
    const place = `${address}:${port}`
    this.tried.push(place)
    await this.hold
    return this.outcomes.get(place) ?? 'open'
  }
}
