import { Buffer } from 'node:buffer'
import { randomBytes } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { BerthError } from '../../shared/errors.js'
import { findFullRoom, type Holding } from '../../shared/fair-room.js'
import type { FleetView } from '../fleet/contract.js'
import { journalLane, removalLane, type ChangeMark } from '../fleet/change-mark.js'
import type { FleetChange } from '../fleet/fleet-changes.js'
import type { HostPosition } from '../fleet/host-position.js'
import { isFor, sameAudience, sharedNameOf, type Audience } from './audience.js'
import type { CatchUp } from './catch-up.js'
import type { Describe, EventContent } from './event.js'
import { encodeFor, gatherEvents, gatherMissing, type GatheredEvents } from './gather-events.js'
import type { EventJournal } from './journal.js'
import { EventSubscriber } from './listener.js'
import { planHostNews, withConnection } from './plan-host-news.js'
import { isOnlineIn, markAfter, markAt, type EntryMark } from './positions.js'
import { readResume, startOf, type Resume } from './resume.js'
import { EventRing, type RingLimits, type RingStart } from './ring.js'
import type { SharedOrder } from './shared-order.js'

export interface HubOptions {
  readonly view: Pick<FleetView, 'changes' | 'findGuest' | 'findHost' | 'hosts'> & {
    positions(): Iterable<HostPosition>
    hostMarks(): Iterable<ChangeMark>
  }
  readonly describe: Describe
  /** Stores events across restarts. With a journal, call `start`. Without one, clients start over after a restart. */
  readonly journal?: EventJournal
  /** Records for other gateways which events a client has received. Absent: clients start over at other gateways. */
  readonly order?: Pick<SharedOrder, 'isNeeded' | 'record' | 'find'>
  /** Limits of stored events. Default: 16,384 events, at most 16 MiB in total. */
  readonly limits?: RingLimits
  /** Maximum number of clients at a time. Default: 2000. */
  readonly maxListeners?: number
}

export interface Opening {
  readonly response: ServerResponse
  readonly audience: Audience
  readonly holding: Holding
  readonly resume: Resume
  /** Returns which events the client may still receive. @throws {BerthError} if the client has lost its access */
  readonly recheck: () => Promise<Audience>
}

const defaultLimits: RingLimits = { count: 16_384, bytes: 16 * 1024 ** 2 }
/** Interval in ms between writes to a client. Events of one interval are sent together. */
const gatherMs = 50
/** Maximum time in ms between a caller's loss of rights and the end of its stream. */
const recheckMs = 1000
const beatEveryMs = 15_000

/** Sends the changes of the fleet to clients. All events are in one ring, from which each client reads its part. */
export class EventHub {
  ring: EventRing
  readonly #listeners = new Set<EventSubscriber>()
  readonly #holdings = new Map<EventSubscriber, Holding>()
  /** Cache of encoded events. Listeners with the same rights and the same next event share an item. */
  readonly #gathered = new Map<string, GatheredEvents>()
  #timer: NodeJS.Timeout | undefined
  #pumpedAtMs = 0
  #isRecording = false
  #resets = 0
  #closed = false
  #started: boolean
  /** Mark of the latest change. `#nextPart`: number of its latest event. The next event gets this number plus 1. */
  #lastMark: ChangeMark | undefined
  #nextPart = 0
  readonly #stops: (() => void)[]

  constructor(private readonly options: HubOptions) {
    const { former } = options.journal ?? {}
    this.ring = this.#makeRing(former)
    for (const { event, mark } of former?.entries ?? []) this.ring.add(event, mark)
    this.ring.release()
    this.#started = options.journal === undefined
    options.journal?.begin(this.ring, former?.hosts.values() ?? [])
    const { changes } = options.view
    this.#stops = [
      changes.listen((change, hostId, mark) => this.#take(change, hostId, mark)),
      changes.listenPositions((mark) => this.#add(undefined, markAfter(mark))),
    ]
  }

  /**
   * Continues with the events of the previous gateway process, and reports the hosts that have changed since that
   * process ended. Before this call, changes of hosts are not reported, because every host would seem to be new.
   * @param isComplete false: some hosts are not known. Earlier events are dropped, and clients start over.
   */
  start(isComplete: boolean): void {
    const { journal, view } = this.options
    if (this.#started || !journal) return
    this.#started = true
    const { former } = journal
    if (former && isComplete)
      for (const change of planHostNews(former.hosts, view.hosts())) {
        const { id } = (change.after ?? change.before)!
        this.#take(change, id, change.after ? undefined : { lane: removalLane(id), revision: 2 })
      }
    else {
      this.ring = this.#makeRing()
      journal.begin(this.ring, [])
      this.#notePositions(view)
    }
    for (const mark of view.hostMarks()) this.#add(undefined, markAfter(mark))
    journal.forgetFormer()
    this.#save()
    this.#schedule()
  }

  /** Adds a gap for each host at its last reported revision, because the ring lacks all changes up to this revision. */
  #notePositions(view: HubOptions['view']): void {
    for (const { id, epoch, revision } of view.positions())
      if (epoch !== '') this.#add(undefined, markAfter({ lane: journalLane(id, epoch), revision, isGap: true }))
  }

  /** Call this when another gateway has joined and needs the order of events. */
  shareOrder(): void {
    this.#schedule()
  }

  /** Number of connected clients. */
  get listeners(): number {
    return this.#listeners.size
  }

  /** Number of events `reset` that were sent to clients that had missed events. */
  get resets(): number {
    return this.#resets
  }

  /** Refuses a stream above the limits, in total or per caller. @throws {BerthError} `events_unavailable` */
  refuseTooMany(holding: Holding): void {
    const most = this.options.maxListeners ?? 2000
    const room = { most, perShare: Math.ceil(most / 20), reserve: Math.floor(most / 10) }
    const full = findFullRoom(this.#holdings.values(), holding, room)
    if (full === undefined) return
    const problem = full === 'share' ? 'too many of your event streams are open' : 'too many event streams are open'
    throw new BerthError('unavailable', 'events_unavailable', `${problem}: try again later`)
  }

  /** Finds out what a client has received. @param lastId id of the last event; undefined: none */
  readResume(lastId: string | undefined): Promise<Resume> {
    return readResume(this.ring.epoch, lastId, this.options.order)
  }

  /** Serves a client until it disconnects or loses its access. */
  open({ response, audience, holding, resume, recheck }: Opening): void {
    if (!this.options.order?.isNeeded) this.ring.release()
    const listener = new EventSubscriber({
      response,
      audience,
      start: startOf(this.ring, resume),
      ring: this.ring,
      onReset: () => this.#resets++,
      source: {
        gather: (...asked) => this.#gather(...asked),
        gatherConnections: (...asked) => this.#gatherConnections(...asked),
      },
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
    for (const stop of this.#stops) stop()
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

  #take(change: FleetChange, hostId: string, mark: ChangeMark | undefined): void {
    if (!this.#started && (change.kind === 'host' || change.kind === 'usage')) return
    for (const content of this.options.describe(change, hostId)) this.#add(content, mark && this.#divide(mark))
    this.#schedule()
  }

  #add(content: EventContent | undefined, mark: EntryMark | undefined): void {
    const entry = this.ring.add(content, mark)
    this.options.journal?.add(entry)
  }

  /** Returns the mark for the next event of a change. The events of one change are numbered from 0. */
  #divide(mark: ChangeMark): EntryMark {
    const isSame = this.#lastMark?.lane === mark.lane && this.#lastMark.revision === mark.revision
    this.#lastMark = mark
    this.#nextPart = isSame ? this.#nextPart + 1 : 0
    return markAt(mark, this.#nextPart)
  }

  #makeRing(start: RingStart = { epoch: randomBytes(6).toString('hex'), first: 1, base: new Map() }): EventRing {
    return new EventRing(start, this.options.limits ?? defaultLimits)
  }

  /** Writes events to the journal before the hosts' revisions. A crash in between can repeat events, but loses none. */
  #save(): void {
    if (this.#started) this.options.journal?.update(this.ring, this.options.view.positions())
  }

  #schedule(): void {
    if (this.#timer !== undefined || this.#isRecording) return
    if (this.#listeners.size === 0 && !this.options.journal) return
    const sinceMs = performance.now() - this.#pumpedAtMs
    this.#timer = setTimeout(() => this.#pump(), Math.max(0, gatherMs - sinceMs))
  }

  #pump(): void {
    this.#timer = undefined
    const { order } = this.options
    if (order?.isNeeded) void this.#pumpRecorded(order)
    else this.#send()
  }

  /** Stores the order of the new events before clients receive them. */
  async #pumpRecorded(order: NonNullable<HubOptions['order']>): Promise<void> {
    const { ring } = this
    const end = ring.next
    this.#isRecording = true
    await order.record(ring)
    this.#isRecording = false
    if (this.#closed) return
    const isReplaced = ring !== this.ring // `start` has replaced the ring
    if (!isReplaced) this.#send(end)
    if (isReplaced || ring.next > end) this.#schedule()
  }

  #send(end?: number): void {
    this.ring.release(end)
    this.#gathered.clear()
    for (const listener of this.#listeners) listener.pump()
    this.#gathered.clear()
    this.#save()
    this.#pumpedAtMs = performance.now()
  }

  /** Encodes events. Listeners with the same rights and the same next event share the result, as most listeners do. */
  #gather(audience: Audience, from: number, maxBytes: number, catchUp?: CatchUp): GatheredEvents {
    const { ring } = this
    const request = { ring, view: this.options.view, audience, from, maxBytes }
    if (catchUp) return gatherMissing(request, catchUp)
    const shared = sharedNameOf(audience)
    if (shared === undefined) return gatherEvents(request)
    const name = `${from} ${ring.released} ${shared}`
    const known = this.#gathered.get(name)
    if (known) return known
    const made = gatherEvents(request)
    if (this.#gathered.size < 64) this.#gathered.set(name, made)
    return made
  }

  /** Encodes the connection state of each host whose state the client does not know yet. */
  #gatherConnections(audience: Audience, catchUp: CatchUp): Buffer {
    const { view, describe } = this.options
    const { latest } = this.ring
    const changed = catchUp.takeConnections(
      latest,
      view.hosts().map(({ id }) => id),
    )
    const events = changed.flatMap((id) => describe(withConnection(view.findHost(id)!, isOnlineIn(latest, id)), id))
    return Buffer.concat(
      events.filter((event) => isFor(audience, event, view)).map((event) => encodeFor(audience, event)),
    )
  }
}
