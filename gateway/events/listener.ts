import { Buffer } from 'node:buffer'
import type { ServerResponse } from 'node:http'
import type { Audience } from './audience.js'
import type { EventRing } from './ring.js'

/** Most bytes that wait for one client, in addition to its socket's buffers. */
const waitingBytes = 256 * 1024
/** A client that reads nothing for this long is disconnected. */
const stalledMs = 60_000
/** Time that clients wait before they reconnect. */
const retryMs = 2000

/** Gathers the frames of an audience from one number up to another. */
export type Gather = (audience: Audience, from: number, maxBytes: number) => { bytes: Buffer; next: number }

export interface ListenerParts {
  readonly response: ServerResponse
  readonly audience: Audience
  readonly ring: EventRing
  readonly gather: Gather
  /** Id of the last event that the client has. */
  readonly lastId: string | undefined
}

/**
 * One client of the stream. It reads from the ring at its own pace: unread events wait there, and once they are
 * overwritten the client must start over. Its cost is therefore independent of its speed.
 */
export class EventSubscriber {
  /** Number of its next event. */
  #next: number
  #waitsSinceMs = 0
  #ended = false

  readonly audience: Audience
  readonly #response: ServerResponse
  readonly #ring: EventRing
  readonly #gather: Gather

  constructor({ response, audience, ring, gather, lastId }: ListenerParts) {
    this.#response = response
    this.audience = audience
    this.#ring = ring
    this.#gather = gather
    const next = lastId === undefined ? ring.next : ring.findNext(lastId)
    this.#next = next ?? ring.next
    response.on('drain', () => this.pump())
    // The client may disconnect during a write: `close` follows, and without a listener the process would end.
    response.on('error', () => response.destroy())
    response.write(`retry: ${retryMs}\n`)
    this.#note(next === undefined ? 'reset' : 'ready')
    this.pump()
  }

  /** Sends new events, as far as the client accepts them. */
  pump(): void {
    while (!this.#ended && this.#next < this.#ring.next) {
      if (this.#isFull()) return
      if (this.#next < this.#ring.first) {
        this.#next = this.#ring.next
        return this.#note('reset')
      }
      const { bytes, next } = this.#gather(this.audience, this.#next, waitingBytes)
      this.#next = next
      if (bytes.length > 0) this.#response.write(bytes)
    }
  }

  /**
   * Sent periodically, so that a client or a proxy sees that the stream is alive; disconnects a client that reads
   * nothing.
   */
  beat(nowMs: number): void {
    if (this.#isFull()) {
      this.#waitsSinceMs ||= nowMs
      if (nowMs - this.#waitsSinceMs >= stalledMs) this.#response.destroy()
      return
    }
    this.#waitsSinceMs = 0
    this.#response.write('event: beat\ndata: {}\n\n')
  }

  /** Reports the reason, and ends the stream. */
  end(code: string): void {
    if (this.#ended) return
    this.#ended = true
    // A client that reads nothing would not read this either.
    if (this.#isFull()) return void this.#response.destroy()
    this.#response.end(`event: end\ndata: ${JSON.stringify({ code })}\n\n`)
  }

  #isFull(): boolean {
    return this.#response.writableLength >= waitingBytes
  }

  #note(event: 'ready' | 'reset'): void {
    this.#response.write(`id: ${this.#ring.idOf(this.#next - 1)}\nevent: ${event}\ndata: {}\n\n`)
  }
}
