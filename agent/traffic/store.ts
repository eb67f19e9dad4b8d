import type { Statement } from 'better-sqlite3'
import type { Changes } from '../state/changes.js'
import type { TrafficCount } from './plan-count.js'

interface TrafficRow {
  guest_uuid: string
  period_start: string
  rx_bytes: number
  tx_bytes: number
  counter_epoch: string
  counter_rx: number
  counter_tx: number
}

/** Counts of guests. Not watched: they change all the time, and are asked for when wanted. */
export class TrafficStore {
  readonly #find: Statement<[string], TrafficRow>
  readonly #put: Statement<[TrafficRow]>

  constructor(readonly changes: Changes) {
    this.#find = changes.db.prepare('SELECT * FROM traffic WHERE guest_uuid = ?')
    this.#put = changes.db.prepare(
      `INSERT OR REPLACE INTO traffic
         (guest_uuid, period_start, rx_bytes, tx_bytes, counter_epoch, counter_rx, counter_tx)
       VALUES (@guest_uuid, @period_start, @rx_bytes, @tx_bytes, @counter_epoch, @counter_rx, @counter_tx)`,
    )
  }

  find(uuid: string): TrafficCount | undefined {
    const row = this.#find.get(uuid)
    return row && countOf(row)
  }

  list(): Map<string, TrafficCount> {
    const rows = this.changes.db.prepare<[], TrafficRow>('SELECT * FROM traffic').all()
    return new Map(rows.map((row) => [row.guest_uuid, countOf(row)]))
  }

  /** Count and counters in one: a crash loses both or none. The guest must be in the journal. */
  put(uuid: string, count: TrafficCount): void {
    this.#put.run({
      guest_uuid: uuid,
      period_start: count.periodStart,
      rx_bytes: count.rxBytes,
      tx_bytes: count.txBytes,
      counter_epoch: count.counterEpoch,
      counter_rx: count.counterRx,
      counter_tx: count.counterTx,
    })
  }
}

function countOf(row: TrafficRow): TrafficCount {
  return {
    periodStart: row.period_start,
    rxBytes: row.rx_bytes,
    txBytes: row.tx_bytes,
    counterEpoch: row.counter_epoch,
    counterRx: row.counter_rx,
    counterTx: row.counter_tx,
  }
}
