import { Buffer } from 'node:buffer'
import type { ServerResponse } from 'node:http'
import type { Audience } from './audience.js'
import type { EventRing } from './ring.js'

/** Maximum number of bytes that wait for one client, in addition to the buffers of its socket. */
const waitingBytes = 256 * 1024
/** A client that does not read for this long (ms) is disconnected. */
const stalledMs = 60_000
/** Time in ms that clients wait before they connect again. */
const retryMs = 2000

/** Encodes the events from `from` up to (not including) `next` that an audience may receive: at most `maxBytes`. */
export type Gather = (audience: Audience, from: number, maxBytes: number) => { bytes: Buffer; next: number }

export interface ListenerParts {
  readonly response: ServerResponse
  readonly audience: Audience
  readonly ring: EventRing
  readonly gather: Gather
  /** Id of the last event that the client has received. */
  readonly lastId: string | undefined
}

/**
 * One client of the stream of events. It reads from the ring at its own pace. Unread events wait in the ring, so that
 * slow clients use no more memory than fast ones. If unread events are overwritten, the client must start again.
 */
export class EventSubscriber {
  /** Number of the next event for the client. */
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
    // If the client disconnects during a write, `close` follows this event. Without a listener, the process would end.
    response.on('error', () => response.destroy())
    response.write(`retry: ${retryMs}\n`)
    this.#note(next === undefined ? 'reset' : 'ready')
    this.pump()
  }

  /** Sends new events as far as the client accepts them. */
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

  /** Sends a sign of life. Call it periodically. A client that does not read for a while is disconnected. */
  beat(nowMs: number): void {
    if (this.#isFull()) {
      this.#waitsSinceMs ||= nowMs
      if (nowMs - this.#waitsSinceMs >= stalledMs) this.#response.destroy()
      return
    }
    this.#waitsSinceMs = 0
    this.#response.write('event: beat\ndata: {}\n\n')
  }

  /** Tells the client why the stream ends, and ends the stream. */
  end(code: string): void {
    if (this.#ended) return
    this.#ended = true
    // A client that does not read would not get the reason.
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
