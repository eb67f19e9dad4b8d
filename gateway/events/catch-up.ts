import { kindOfLane } from '../fleet/change-mark.js'
import { formatEventId, type EventNumber } from './event-id.js'
import { dropReplaced, includes, isOnlineIn, type Position } from './positions.js'
import type { RingEntry } from './ring.js'

/** The events that a client has received from other gateways. */
export interface Foreign {
  readonly numbers: readonly EventNumber[]
  readonly position: Position
  /** Position of the gateway that reported host connections to the client. `undefined`: this gateway did. */
  readonly connections: Position | undefined
}

export type Verdict = 'send' | 'skip' | 'gap'

/**
 * Selects the events that a client lacks after it has received events of another gateway. The selection ends when this
 * gateway has seen all events that the client has received.
 */
export class CatchUp {
  /** True if an entry was found that the client lacks. Until then, entries without a mark count as received. */
  #hasNews: boolean
  readonly #removedGuests = new Set<string>()
  readonly #position: Map<string, number>
  #connections: Position | undefined

  constructor(private readonly foreign: Foreign) {
    this.#position = new Map(foreign.position)
    this.#connections = foreign.connections
    this.#hasNews = foreign.connections === undefined
  }

  /** Decides whether the next entry is sent. `gap`: some events reached neither this gateway nor the client. */
  judge({ event, mark }: RingEntry): Verdict {
    const verdict = this.#judge(mark)
    if (verdict === 'skip' && !(event && this.#removedGuests.has(event.guestUuid))) return 'skip'
    if (event?.type === 'guest.removed') this.#removedGuests.add(event.guestUuid)
    else if (event) this.#removedGuests.delete(event.guestUuid)
    return verdict === 'gap' ? 'gap' : 'send'
  }

  #judge(mark: RingEntry['mark']): Verdict {
    if (!mark) return this.#hasNews ? 'send' : 'skip'
    if (kindOfLane(mark.lane) === 'online') return this.#connections ? 'skip' : 'send'
    const known = this.#position.get(mark.lane)
    if (known === undefined) dropReplaced(this.#position, mark.lane)
    else if (known >= mark.at) return 'skip'
    this.#hasNews = true
    return mark.isGap ? 'gap' : 'send'
  }

  /** Returns the event id for a client that has received this gateway's entries up to `own`. */
  idAfter(own: EventNumber): string {
    const { numbers } = this.foreign
    return formatEventId(this.#connections ? [...numbers, own] : [own, ...numbers])
  }

  /**
   * Compares the states of host connections that the client knows with the states that this gateway knows. Later
   * changes of these states are sent as events.
   * @returns ids of the hosts whose states differ
   */
  takeConnections(latest: Position, hostIds: Iterable<string>): string[] {
    const known = this.#connections
    this.#connections = undefined
    this.#hasNews = true
    if (!known) return []
    return [...hostIds].filter((id) => isOnlineIn(known, id) !== isOnlineIn(latest, id))
  }

  /** True if this gateway has seen all events that the client has received. */
  isOver(latest: Position): boolean {
    return !this.#connections && includes(latest, this.#position)
  }
}
