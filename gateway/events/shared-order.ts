import type { Logger } from 'pino'
import { KeyedSingleFlight } from '../../shared/async/single-flight.js'
import { describeError } from '../../shared/errors.js'
import { withTimeout } from '../store/connection.js'
import type { Store } from '../store/store.js'
import type { EventNumber } from './event-id.js'
import { findPosition, planOrder, segmentOf, type OrderEntry } from './order.js'
import { join, type Position } from './positions.js'
import type { EventRing } from './ring.js'

export interface SharedOrderOptions {
  readonly store: Store
  readonly log: Logger
  /** True if other gateways use this store, too. */
  readonly isShared: () => boolean
}

/** Number of segments that stay in the store. They cover all events in the ring. */
const keptSegments = 6
/** Time in ms for which the store keeps the event order of a gateway that sends no events. */
const keepMs = 24 * 60 * 60_000
/** Maximum time in ms for which events are held back until the store has their order. */
const writeTimeoutMs = 1000
const retryMs = 1000
/** Maximum number of segments in `#segments`, and of positions in `#positions`. */
const cached = 32

/**
 * Stores the order of the events at each gateway, from which other gateways learn which events a client has received.
 * The events are not stored, because each gateway has all events itself.
 * `event-order:EPOCH:SEGMENT` is a list of `OrderEntry` as JSON. EPOCH is the `epoch` of the gateway's `EventRing`.
 */
export class SharedOrder {
  /** Number of the first entry whose order is not stored yet. `undefined`: nothing is stored, or a write failed. */
  #stored: number | undefined
  /** Epoch of the ring to which `#stored` refers. */
  #epoch = ''
  #retryAtMs = 0
  readonly #segments = new Map<string, readonly OrderEntry[]>()
  readonly #positions = new Map<string, Position>()
  readonly #reads = new KeyedSingleFlight<string, readonly OrderEntry[]>()

  constructor(private readonly options: SharedOrderOptions) {
    // The store can be another Redis server now, which lacks the last writes. The next write needs a `base`.
    options.store.on('up', () => (this.#stored = undefined))
  }

  /** True if clients may only receive events after their order is stored. */
  get isNeeded(): boolean {
    return this.options.isShared()
  }

  /**
   * Stores the order of all new entries of the ring. If this fails, clients that have received these entries cannot
   * resume at other gateways.
   */
  async record(ring: EventRing): Promise<void> {
    const { store, log } = this.options
    if (!store.ready() || performance.now() < this.#retryAtMs) return void (this.#stored = undefined)
    const to = ring.next
    const isFirst = this.#epoch !== ring.epoch || this.#stored !== ring.released
    this.#stored = undefined
    this.#epoch = ring.epoch
    try {
      await withTimeout(writeTimeoutMs, this.#write(ring, isFirst))
      this.#stored = to
    } catch (error) {
      this.#retryAtMs = performance.now() + retryMs
      log.warn(
        { reason: describeError(error) },
        'the order of events could not be stored; event streams may have to start over at other gateways',
      )
    }
  }

  /** Finds the position up to which a client has received other gateways' events. `undefined`: position not known. */
  async find(numbers: readonly EventNumber[]): Promise<Position | undefined> {
    const positions = await Promise.all(numbers.map((number) => this.#findOne(number)))
    return positions.reduce((all, one) => all && one && join(all, one))
  }

  async #write(ring: EventRing, isFirst: boolean): Promise<void> {
    const [from, base] = isFirst ? [ring.first, ring.base] : [ring.released, ring.latest]
    const multi = this.options.store.client.multi()
    for (const entry of planOrder(ring, { from, to: ring.next, base, isFirst })) {
      const segment = segmentOf(entry.from)
      const key = this.#key(ring.epoch, segment)
      if (isFirst) multi.del(key)
      else if (entry.base) multi.del(this.#key(ring.epoch, segment - keptSegments))
      multi.rPush(key, JSON.stringify(entry))
      multi.pExpire(key, keepMs)
    }
    await multi.exec()
  }

  async #findOne({ epoch, number }: EventNumber): Promise<Position | undefined> {
    const name = `${epoch}.${number}`
    const known = this.#positions.get(name)
    if (known) return known
    const key = this.#key(epoch, segmentOf(number))
    const found =
      findPosition(this.#segments.get(key) ?? [], number) ??
      findPosition(await this.#read(key), number) ??
      findPosition(await this.#read(key), number) // the first read can have begun before this call, for another caller
    if (found) remember(this.#positions, name, found)
    return found
  }

  /** Returns the entries of a segment. Empty: the store is not available, or does not contain the segment. */
  #read(key: string): Promise<readonly OrderEntry[]> {
    return this.#reads.run(key, async () => {
      const texts = await this.options.store
        .run('read the order of events', (client) => client.lRange(key, 0, -1))
        .catch(() => [])
      const entries = texts.map((text) => JSON.parse(text) as OrderEntry)
      if (entries.length > 0) remember(this.#segments, key, entries)
      return entries
    })
  }

  #key(epoch: string, segment: number): string {
    return this.options.store.key('event-order', epoch, segment)
  }
}

/** Adds a value to a cache. Drops the oldest value if the cache is too large. */
function remember<Value>(cache: Map<string, Value>, key: string, value: Value): void {
  cache.delete(key)
  cache.set(key, value)
  if (cache.size > cached) cache.delete(cache.keys().next().value!)
}
