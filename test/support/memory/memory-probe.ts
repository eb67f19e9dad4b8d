import type { ConnectOutcome, GuestProbe } from '../../../agent/host/guest/guest-probe.js'
import type { ListeningSocket } from '../../../agent/host/net/listening-ports.js'

/** Listening sockets of guests and outcomes of connections to them, set by a test. */
export class MemoryProbe implements GuestProbe {
  listeners: readonly ListeningSocket[] | undefined = [{ port: 22, isReachable: true }]
  /** By `address:port`; others are `open`. */
  readonly outcomes = new Map<string, ConnectOutcome>()
  /** Targets of connection attempts, in order. */
  readonly tried: string[] = []
  /** Connections wait for it. */
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
