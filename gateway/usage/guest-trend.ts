import type { Logger } from 'pino'
import type { Fleet } from '../fleet/contract.js'
import { StoredDocument } from '../store/document.js'
import type { Store } from '../store/store.js'
import {
  hasHour,
  hourMs,
  noGuestCounts,
  planGuestTrend,
  planRecorded,
  type GuestCountHistory,
} from './plan-guest-trend.js'

/** Records the number of guests once an hour, for all gateways together. Create the object before `store.start()`. */
export class GuestTrend {
  readonly #history: StoredDocument<GuestCountHistory>

  constructor(
    store: Store,
    log: Logger,
    private readonly now: () => number = Date.now,
  ) {
    this.#history = new StoredDocument({ store, name: 'guest-counts', initial: noGuestCounts, log })
  }

  /**
   * Records the number of guests if it is not yet recorded for this hour, and all hosts have reported.
   * @throws {BerthError} `store_unavailable`
   */
  async record(fleet: Pick<Fleet, 'isComplete' | 'view'>): Promise<void> {
    const hour = this.#hour()
    const known = this.#history.value
    if (known === undefined || hasHour(known, hour) || !isCounted(fleet)) return
    const { total } = fleet.view.countGuests()
    await this.#history.update((history) => planRecorded(history, hour, total))
  }

  /** Returns the numbers of the last 90 days, oldest first. `null`: not known. */
  read(): (number | null)[] {
    return planGuestTrend(this.#history.value ?? noGuestCounts, this.#hour())
  }

  #hour(): number {
    return Math.floor(this.now() / hourMs)
  }
}

/** True if each host that has joined has reported its guests since the start of this gateway. */
function isCounted({ isComplete, view }: Pick<Fleet, 'isComplete' | 'view'>): boolean {
  return isComplete && view.hosts().every(({ state, description }) => state === 'pending' || description !== undefined)
}
