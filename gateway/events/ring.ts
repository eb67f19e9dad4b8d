import { Buffer } from 'node:buffer'
import type { CustomerEvent, EventContent, EventType } from './event.js'
import { formatEventId } from './event-id.js'
import { advance, type EntryMark, type Position } from './positions.js'

export interface RingLimits {
  readonly count: number
  readonly bytes: number
}

/** An event, encoded for sending. */
export interface SentEvent extends EventContent {
  readonly frame: Buffer
  /** The encoded event for listeners whose caller may access only some guests. */
  readonly customerFrame: Buffer
}

/** An entry of the ring. Entries are numbered without gaps. An entry without an event only advances the position. */
export interface RingEntry {
  readonly number: number
  readonly event: SentEvent | undefined
  readonly mark: EntryMark | undefined
}

export interface RingStart {
  readonly epoch: string
  /** Number of the first entry: 1, or a higher number if this ring continues an earlier ring. */
  readonly first: number
  /** Position before the first entry. */
  readonly base: Position
}

/** The newest events. Each event is encoded once for all listeners. */
export class EventRing {
  readonly #slots: (RingEntry | undefined)[]
  #bytes = 0
  #first: number
  #next: number
  #released: number
  readonly #base: Map<string, number>
  readonly #latest: Map<string, number>

  /** Id of this ring. Other rings can have other events with the same numbers. */
  readonly epoch: string

  constructor(
    { epoch, first, base }: RingStart,
    private readonly limits: RingLimits,
  ) {
    this.epoch = epoch
    this.#slots = new Array<RingEntry | undefined>(limits.count)
    this.#first = this.#next = this.#released = first
    this.#base = new Map(base)
    this.#latest = new Map(base)
  }

  /** Number of the oldest stored entry. */
  get first(): number {
    return this.#first
  }

  /** Number of the next entry. */
  get next(): number {
    return this.#next
  }

  /** Number of the first entry that clients may not receive yet. */
  get released(): number {
    return this.#released
  }

  /** Position of a client before the oldest stored entry. */
  get base(): Position {
    return this.#base
  }

  /** Position of a client that has received all entries before `released`. */
  get latest(): Position {
    return this.#latest
  }

  get bytes(): number {
    return this.#bytes
  }

  /** @param content undefined: the entry only records a position */
  add(content: EventContent | undefined, mark?: EntryMark): RingEntry {
    const number = this.#next++
    const entry = { number, mark, event: content && this.#encode(number, content) }
    if (number - this.#first >= this.limits.count) this.#dropFirst()
    this.#slots[number % this.limits.count] = entry
    this.#bytes += bytesOf(entry)
    while (this.#bytes > this.limits.bytes && this.#first < number) this.#dropFirst()
    return entry
  }

  /** Allows clients to receive the entries before `end`. */
  release(end = this.#next): void {
    for (; this.#released < end; this.#released++) advance(this.#latest, this.at(this.#released).mark)
  }

  /** Returns an entry. @param number `first` or more, but less than `next` */
  at(number: number): RingEntry {
    return this.#slots[number % this.limits.count]!
  }

  *all(): Iterable<RingEntry> {
    for (let number = this.#first; number < this.#next; number++) yield this.at(number)
  }

  /** Id with which a client can resume after this entry. */
  idOf(number: number): string {
    return formatEventId([{ epoch: this.epoch, number }])
  }

  /** True if all entries after `number` are stored, so that a client can resume there. */
  has(number: number): boolean {
    return number + 1 >= this.#first && number + 1 <= this.#released
  }

  #encode(number: number, content: EventContent): SentEvent {
    const { customer } = content
    const frame = this.#frameOf(number, content)
    const customerFrame = customer ? this.#frameOf(number, customer) : frame
    return { ...content, frame, customerFrame }
  }

  #frameOf(number: number, { type, data }: CustomerEvent): Buffer {
    return Buffer.from(`id: ${this.idOf(number)}\n${encodeEvent(type, data)}`)
  }

  #dropFirst(): void {
    if (this.#released === this.#first) this.release(this.#first + 1)
    const at = this.#first++ % this.limits.count
    const dropped = this.#slots[at]!
    this.#bytes -= bytesOf(dropped)
    advance(this.#base, dropped.mark)
    this.#slots[at] = undefined
  }
}

/** Encodes an event without its id. */
export function encodeEvent(type: EventType, data: string): string {
  const kind = type.slice(0, type.indexOf('.'))
  return `event: ${kind}\ndata: {"type":"${type}","data":${data}}\n\n`
}

function bytesOf({ event }: RingEntry): number {
  if (!event) return 0
  const { frame, customerFrame } = event
  return frame.length + (customerFrame === frame ? 0 : customerFrame.length)
}
