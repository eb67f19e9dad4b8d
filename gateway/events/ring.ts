import { Buffer } from 'node:buffer'
import type { EventContent } from './event.js'

export interface RingLimits {
  readonly count: number
  readonly bytes: number
}

/** An event with its number, encoded for sending. */
export interface SentEvent extends EventContent {
  /** Number of the event. The numbers of a ring have no gaps. */
  readonly number: number
  readonly frame: Buffer
  /** The encoded event for listeners whose caller may access only some guests. */
  readonly customerFrame: Buffer
}

/** The newest events. Each event is encoded once for all listeners. */
export class EventRing {
  readonly #slots: (SentEvent | undefined)[]
  #bytes = 0
  #first: number
  #next: number

  /**
   * @param epoch id of this ring: another ring may have other events with the same numbers
   * @param first number of the first event: 1, or a higher number if this ring continues another ring
   */
  constructor(
    readonly epoch: string,
    private readonly limits: RingLimits,
    first = 1,
  ) {
    this.#slots = new Array<SentEvent | undefined>(limits.count)
    this.#first = this.#next = first
  }

  /** Number of the oldest stored event. */
  get first(): number {
    return this.#first
  }

  /** Number of the next event. */
  get next(): number {
    return this.#next
  }

  get bytes(): number {
    return this.#bytes
  }

  add(content: EventContent): SentEvent {
    const number = this.#next++
    const { data, customerData } = content
    const frame = this.#frameOf(number, content, data)
    const customerFrame = customerData === undefined ? frame : this.#frameOf(number, content, customerData)
    const event = { ...content, number, frame, customerFrame }
    if (number - this.#first >= this.limits.count) this.#dropFirst()
    this.#slots[number % this.limits.count] = event
    this.#bytes += bytesOf(event)
    while (this.#bytes > this.limits.bytes && this.#first < number) this.#dropFirst()
    return event
  }

  /** Returns an event. @param number at least `first`, less than `next` */
  at(number: number): SentEvent {
    return this.#slots[number % this.limits.count]!
  }

  /** All retained events, oldest first. */
  *all(): Iterable<SentEvent> {
    for (let number = this.#first; number < this.#next; number++) yield this.at(number)
  }

  /** Id with which a client can resume after this event. */
  idOf(number: number): string {
    return `${this.epoch}.${number}`
  }

  /**
   * Returns the number of the event after the event `id`. `undefined`: the events after it are no longer stored, so
   * that the client must read all data again.
   * @param id id of the last event that the client has received
   */
  findNext(id: string): number | undefined {
    const [, epoch, digits] = /^([\w-]+)\.(\d{1,15})$/.exec(id) ?? []
    const next = Number(digits) + 1
    return epoch === this.epoch && next >= this.#first && next <= this.#next ? next : undefined
  }

  #frameOf(number: number, { type }: EventContent, data: string): Buffer {
    const kind = type.slice(0, type.indexOf('.'))
    return Buffer.from(`id: ${this.idOf(number)}\nevent: ${kind}\ndata: {"type":"${type}","data":${data}}\n\n`)
  }

  #dropFirst(): void {
    const at = this.#first++ % this.limits.count
    const dropped = this.#slots[at]
    this.#bytes -= dropped ? bytesOf(dropped) : 0
    this.#slots[at] = undefined
  }
}

function bytesOf({ frame, customerFrame }: SentEvent): number {
  return frame.length + (customerFrame === frame ? 0 : customerFrame.length)
}
