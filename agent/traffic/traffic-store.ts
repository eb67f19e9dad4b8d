import type { Statement } from 'better-sqlite3'
import type { Changes } from '../state/changes.js'
import type { TrafficCount } from './plan-count.js'

type OfGuest<Count> = Count & { readonly uuid: string }

const columns = `period_start AS periodStart, period_left AS periodLeft, rx_bytes AS rxBytes, tx_bytes AS txBytes,
   counter_epoch AS counterEpoch, counter_rx AS counterRx, counter_tx AS counterTx`

/** Stores guests' traffic counts. Watchers get no events about them, because they change all the time. */
export class TrafficStore {
  readonly #find: Statement<[string], TrafficCount>
  readonly #list: Statement<[], OfGuest<TrafficCount>>
  readonly #put: Statement<[OfGuest<TrafficCount>]>

  constructor({ db }: Changes) {
    this.#find = db.prepare(`SELECT ${columns} FROM traffic WHERE guest_uuid = ?`)
    this.#list = db.prepare(`SELECT guest_uuid AS uuid, ${columns} FROM traffic`)
    this.#put = db.prepare(
      `INSERT OR REPLACE INTO traffic
         (guest_uuid, period_start, period_left, rx_bytes, tx_bytes, counter_epoch, counter_rx, counter_tx)
       VALUES (@uuid, @periodStart, @periodLeft, @rxBytes, @txBytes, @counterEpoch, @counterRx, @counterTx)`,
    )
  }

  find(uuid: string): TrafficCount | undefined {
    return this.#find.get(uuid)
  }

  /** Returns all counts by the guest's uuid. */
  list(): Map<string, TrafficCount> {
    return new Map(this.#list.all().map(({ uuid, ...count }) => [uuid, count]))
  }

  /** Stores counted bytes and counter values together, so that a crash loses both or neither. The guest must exist. */
  put(uuid: string, count: TrafficCount): void {
    this.#put.run({ ...count, uuid })
  }
}
