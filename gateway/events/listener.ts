import { Buffer } from 'node:buffer'
import type { ServerResponse } from 'node:http'
import type { Audience } from './audience.js'
import type { EventRing } from './ring.js'

/** Bytes that wait for one client at most, beside what its sockets hold. */
const waitingBytes = 256 * 1024
/** A client that takes nothing for this long is disconnected. */
const stalledMs = 60_000
/** What clients wait before they connect again. */
const retryMs = 2000

/** Frames from one number up to another for an audience, in one piece. */
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
 * One client of the stream. It reads from the ring at its own pace: what it does not take waits there, and once that is
 * overwritten it is told to start over. So it costs the same however slow it is.
 */
export class EventSubscriber {
  /** Number of the event that it gets next. */
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
    // It goes while something is written: `close` follows, and without a listener the process would end.
    response.on('error', () => response.destroy())
    response.write(`retry: ${retryMs}\n`)
    this.#note(next === undefined ? 'reset' : 'ready')
    this.pump()
  }

  /** Sends what is new, as far as the client takes it. */
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

  /** Sent now and then, so that a client or a proxy sees that it is still there; ends a client that takes nothing. */
  beat(nowMs: number): void {
    if (this.#isFull()) {
      this.#waitsSinceMs ||= nowMs
      if (nowMs - this.#waitsSinceMs >= stalledMs) this.#response.destroy()
      return
    }
    this.#waitsSinceMs = 0
    this.#response.write('event: beat\ndata: {}\n\n')
  }

  /** Tells why, and ends it. */
  end(code: string): void {
    if (this.#ended) return
    this.#ended = true
    // One that takes nothing would not take this either.
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
