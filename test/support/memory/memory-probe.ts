import type { ConnectOutcome, GuestProbe } from '../../../agent/host/guest/guest-probe.js'
import type { ListeningSocket } from '../../../agent/host/net/listening-ports.js'

/** What a test says that guests listen on, and what becomes of connections to them. */
export class MemoryProbe implements GuestProbe {
  listeners: readonly ListeningSocket[] | undefined = [{ port: 22, isReachable: true }]
  /** By `address:port`; others are `open`. */
  readonly outcomes = new Map<string, ConnectOutcome>()
  /** Where connections were tried, in order. */
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
