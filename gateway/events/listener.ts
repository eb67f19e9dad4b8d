import type { Buffer } from 'node:buffer'
import type { ServerResponse } from 'node:http'
import type { Audience } from './audience.js'
import type { CatchUp } from './catch-up.js'
import type { GatheredEvents } from './gather-events.js'
import type { EventRing } from './ring.js'

/** Maximum number of bytes that wait for one client, in addition to the buffers of its socket. */
const waitingBytes = 256 * 1024
/** Time in ms after which a client that does not read is disconnected. */
const stalledMs = 60_000
/** Time in ms that clients wait before they connect again. */
const retryMs = 2000

export interface EventSource {
  /** Encodes events that an audience may receive, beginning at the number `from`, until `maxBytes` are reached. */
  gather(audience: Audience, from: number, maxBytes: number, catchUp: CatchUp | undefined): GatheredEvents
  /** Encodes the connection state of each host whose state the client does not know yet. */
  gatherConnections(audience: Audience, catchUp: CatchUp): Buffer
}

/** Place in the ring at which a client begins. */
export interface StreamStart {
  /** Number of the first entry for the client. */
  readonly next: number
  /** Selects the events that the client lacks. Absent: the client has received events only from this gateway. */
  readonly catchUp?: CatchUp | undefined
  /** Event id with which the client can resume at this place. Absent: the id of the entry before `next`. */
  readonly id?: string | undefined
}

export interface ListenerParts {
  readonly response: ServerResponse
  readonly audience: Audience
  readonly ring: EventRing
  readonly source: EventSource
  /** `undefined`: it is not known which events the client lacks. */
  readonly start: StreamStart | undefined
  /** Called when the client missed events and must start over. */
  readonly onReset: () => void
}

/**
 * One client of the stream of events. It reads from the ring at its own pace. Unread events stay in the ring, so that
 * slow clients use no more memory than fast ones. If unread events are overwritten, the client must start over.
 */
export class EventSubscriber {
  /** Number of the next entry for the client. */
  #next: number
  #catchUp: CatchUp | undefined
  #waitsSinceMs = 0
  #ended = false

  readonly audience: Audience
  readonly #response: ServerResponse
  readonly #ring: EventRing
  readonly #source: EventSource
  readonly #onReset: () => void

  constructor({ response, audience, ring, source, start, onReset }: ListenerParts) {
    this.#response = response
    this.audience = audience
    this.#ring = ring
    this.#source = source
    this.#onReset = onReset
    this.#next = start?.next ?? ring.released
    this.#catchUp = start?.catchUp
    response.on('drain', () => this.pump())
    // If the client disconnects during a write, `error` precedes `close`. An unhandled error would end the process.
    response.on('error', () => response.destroy())
    response.write(`retry: ${retryMs}\n`)
    this.#note(start === undefined ? 'reset' : 'ready', start?.id)
    this.pump()
  }

  /** Sends new events until the client accepts no more. */
  pump(): void {
    while (!this.#ended && this.#next < this.#ring.released) {
      if (this.#isFull()) return
      if (this.#next < this.#ring.first) return this.#reset()
      const { bytes, next, isGap } = this.#source.gather(this.audience, this.#next, waitingBytes, this.#catchUp)
      this.#next = next
      if (bytes.length > 0) this.#response.write(bytes)
      if (isGap) return this.#reset()
    }
    if (this.#catchUp && !this.#ended) this.#endCatchUp(this.#catchUp)
  }

  /** Sends the connection states that the client lacks. Called when the client has received all other entries. */
  #endCatchUp(catchUp: CatchUp): void {
    const bytes = this.#source.gatherConnections(this.audience, catchUp)
    if (catchUp.isOver(this.#ring.latest)) this.#catchUp = undefined
    else if (bytes.length === 0) return
    // The events that were just written have no ids. The heartbeat gives the client the id of its new position.
    this.#response.write(bytes)
    this.#writeBeat()
  }

  #reset(): void {
    this.#next = this.#ring.released
    this.#catchUp = undefined
    this.#note('reset')
  }

  /** Sends a heartbeat. Call this periodically. A client that does not read for `stalledMs` is disconnected. */
  beat(nowMs: number): void {
    if (this.#isFull()) {
      this.#waitsSinceMs ||= nowMs
      if (nowMs - this.#waitsSinceMs >= stalledMs) this.#response.destroy()
      return
    }
    this.#waitsSinceMs = 0
    this.#writeBeat()
  }

  #writeBeat(): void {
    this.#response.write(`id: ${this.#id}\nevent: beat\ndata: {}\n\n`)
  }

  end(code: string): void {
    if (this.#ended) return
    this.#ended = true
    // A client that does not read would not receive the reason for the end of the stream.
    if (this.#isFull()) return void this.#response.destroy()
    this.#response.end(`event: end\ndata: ${JSON.stringify({ code })}\n\n`)
  }

  #isFull(): boolean {
    return this.#response.writableLength >= waitingBytes
  }

  /** Id with which the client can resume. All entries before `#next` were sent, or are not for this client. */
  get #id(): string {
    const last = { epoch: this.#ring.epoch, number: this.#next - 1 }
    return this.#catchUp?.idAfter(last) ?? this.#ring.idOf(last.number)
  }

  #note(event: 'ready' | 'reset', id = this.#id): void {
    if (event === 'reset') this.#onReset()
    this.#response.write(`id: ${id}\nevent: ${event}\ndata: {}\n\n`)
  }
}
