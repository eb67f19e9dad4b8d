import { Buffer } from 'node:buffer'
import { randomBytes } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { BerthError } from '../../shared/errors.js'
import { findFullRoom, type Holding } from '../../shared/fair-room.js'
import type { FleetView } from '../fleet/contract.js'
import type { FleetChange } from '../fleet/fleet-changes.js'
import type { HostPosition } from '../fleet/host-position.js'
import { isFor, sameAudience, sharedNameOf, type Audience } from './audience.js'
import type { Describe } from './event.js'
import type { EventJournal } from './journal.js'
import { EventSubscriber } from './listener.js'
import { planHostNews } from './plan-host-news.js'
import { EventRing, type RingLimits } from './ring.js'

export interface HubOptions {
  readonly view: Pick<FleetView, 'changes' | 'findGuest' | 'hosts'> & { positions(): Iterable<HostPosition> }
  readonly describe: Describe
  /** Stores events across restarts. If set, `start` must be called. Absent: clients start over after a restart. */
  readonly journal?: EventJournal
  /** Limits of stored events. Default: 16,384 events, at most 16 MiB in total. */
  readonly limits?: RingLimits
  /** Maximum number of clients at a time. */
  readonly maxListeners?: number
}

export interface Opening {
  readonly response: ServerResponse
  readonly audience: Audience
  readonly holding: Holding
  /** Id of the last event that the client has received. */
  readonly lastId: string | undefined
  /** Returns the events that the client may receive now. @throws {BerthError} if it may not receive any more */
  readonly recheck: () => Promise<Audience>
}

const defaultLimits: RingLimits = { count: 16_384, bytes: 16 * 1024 ** 2 }
/** Interval in ms between writes to a client. Events within it are sent together. */
const gatherMs = 50
/** Maximum time in ms until a stream ends after its caller has lost rights. */
const recheckMs = 1000
const beatEveryMs = 15_000

interface GatheredEvents {
  readonly bytes: Buffer
  readonly next: number
}

/** Sends the changes of the fleet to clients. All events are in one ring, from which each client reads its part. */
export class EventHub {
  ring: EventRing
  readonly #listeners = new Set<EventSubscriber>()
  readonly #holdings = new Map<EventSubscriber, Holding>()
  /** Collected events to send. Listeners with the same rights and the same next event share an entry. */
  readonly #gathered = new Map<string, GatheredEvents>()
  #timer: NodeJS.Timeout | undefined
  #pumpedAtMs = 0
  #closed = false
  #started: boolean
  readonly #stop: () => void

  constructor(private readonly options: HubOptions) {
    const { former } = options.journal ?? {}
    this.ring = this.#makeRing(former?.epoch, former?.first)
    for (const event of former?.events ?? []) this.ring.add(event)
    this.#started = options.journal === undefined
    options.journal?.begin(this.ring, former?.hosts.values() ?? [])
    this.#stop = options.view.changes.listen((change, hostId) => this.#take(change, hostId))
  }

  /**
   * Continues with the events of the previous gateway process, and reports which hosts have changed since then. Until
   * this call, changes of hosts are not reported, because every host would appear as new.
   * @param isComplete false: not all hosts are known. Earlier events are then dropped, and clients start again.
   */
  start(isComplete: boolean): void {
    const { journal, view } = this.options
    if (this.#started || !journal) return
    this.#started = true
    const { former } = journal
    if (former && isComplete)
      for (const change of planHostNews(former.hosts, view.hosts()))
        this.#take(change, (change.after ?? change.before)!.id)
    else {
      this.ring = this.#makeRing()
      journal.begin(this.ring, [])
    }
    journal.forgetFormer()
    this.#save()
  }

  /** Number of connected clients. */
  get listeners(): number {
    return this.#listeners.size
  }

  /** Rejects another client if too many are connected. @throws {BerthError} `events_unavailable` */
  refuseTooMany(holding: Holding): void {
    const most = this.options.maxListeners ?? 2000
    const room = { most, perShare: Math.ceil(most / 20), reserve: Math.floor(most / 10) }
    const full = findFullRoom(this.#holdings.values(), holding, room)
    if (full === undefined) return
    const whose = full === 'share' ? 'too many of your event streams are open' : 'too many event streams are open'
    throw new BerthError('unavailable', 'events_unavailable', `${whose}: try again later`)
  }

  /** Serves a client until it disconnects or may not receive events any more. */
  open({ response, audience, holding, lastId, recheck }: Opening): void {
    const listener = new EventSubscriber({
      response,
      audience,
      lastId,
      ring: this.ring,
      gather: (...asked) => this.#gather(...asked),
    })
    this.#listeners.add(listener)
    this.#holdings.set(listener, holding)
    const check = setInterval(() => void this.#check(listener, recheck), recheckMs).unref()
    const beat = setInterval(() => listener.beat(performance.now()), beatEveryMs).unref()
    response.once('close', () => {
      clearInterval(check)
      clearInterval(beat)
      this.#listeners.delete(listener)
      this.#holdings.delete(listener)
    })
    if (this.#closed) listener.end('closing')
  }

  /** Ends all present and future streams. Their clients then connect again. */
  endStreams(): void {
    this.#closed = true
    for (const listener of this.#listeners) listener.end('closing')
  }

  close(): void {
    this.endStreams()
    this.#stop()
    clearTimeout(this.#timer)
    this.#save()
  }

  async #check(listener: EventSubscriber, recheck: Opening['recheck']): Promise<void> {
    try {
      if (!sameAudience(listener.audience, await recheck())) listener.end('rights_changed')
    } catch (error) {
      listener.end(error instanceof BerthError ? error.code : 'internal_error')
    }
  }

  #take(change: FleetChange, hostId: string): void {
    if (!this.#started && (change.kind === 'host' || change.kind === 'usage')) return
    for (const content of this.options.describe(change, hostId)) {
      this.ring.add(content)
      this.options.journal?.add(content)
    }
    this.#schedule()
  }

  #makeRing(epoch = randomBytes(6).toString('hex'), first?: number): EventRing {
    return new EventRing(epoch, this.options.limits ?? defaultLimits, first)
  }

  /** Writes events, then the hosts' revisions. After a crash in between, clients get events twice, but miss none. */
  #save(): void {
    if (this.#started) this.options.journal?.update(this.ring, this.options.view.positions())
  }

  #schedule(): void {
    if (this.#timer !== undefined || (this.#listeners.size === 0 && !this.options.journal)) return
    const sinceMs = performance.now() - this.#pumpedAtMs
    this.#timer = setTimeout(() => this.#pump(), Math.max(0, gatherMs - sinceMs))
  }

  #pump(): void {
    this.#timer = undefined
    this.#gathered.clear()
    for (const listener of this.#listeners) listener.pump()
    this.#gathered.clear()
    this.#save()
    this.#pumpedAtMs = performance.now()
  }

  /** Encodes events. Usually, many listeners have the same rights and the same next event. They share the result. */
  #gather(audience: Audience, from: number, maxBytes: number): GatheredEvents {
    const shared = sharedNameOf(audience)
    if (shared === undefined) return this.#collect(audience, from, maxBytes)
    const name = `${from} ${this.ring.next} ${shared}`
    const known = this.#gathered.get(name)
    if (known) return known
    const made = this.#collect(audience, from, maxBytes)
    if (this.#gathered.size < 64) this.#gathered.set(name, made)
    return made
  }

  #collect(audience: Audience, from: number, maxBytes: number): GatheredEvents {
    const frames: Buffer[] = []
    let [bytes, next] = [0, from]
    for (; next < this.ring.next && bytes < maxBytes; next++) {
      const event = this.ring.at(next)
      if (!isFor(audience, event, this.options.view)) continue
      const frame = audience.guests === 'all' ? event.frame : event.customerFrame
      frames.push(frame)
      bytes += frame.length
    }
    return { bytes: Buffer.concat(frames), next }
  }
}
