import { seriesBytes } from '../history/plan-series.js'
import { mergePart } from '../history/plan-transfer.js'
import type { Database } from '../state/database.js'
import type { HistoryPosition, HistoryTransfer } from '../guests/record/guest-history.js'
import type { MovedOperation } from '../operations/moved-operations.js'
import { mostMoved, type HistoryMessage, type SentAlert } from './message.js'

export interface ReceivedItems {
  /** Oldest first. */
  readonly operations: readonly MovedOperation[]
  readonly alerts: readonly SentAlert[]
  readonly series: Buffer
}

type Kind = keyof typeof mostMoved | 'series' | 'position'

interface Item {
  readonly kind: Kind
  readonly key: string
  readonly atMs: number
  readonly value: string
}

const nothing: HistoryPosition = { revision: 0, atMs: 0 }

/** Stores what other hosts have sent, until the guest belongs to this host. Writes join the caller's transaction. */
export class ReceivedHistory {
  constructor(private readonly db: Database) {}

  /** Returns the position up to which the transfer has been received. */
  position({ transferId }: HistoryTransfer): HistoryPosition {
    const [known] = this.#values(transferId, 'position')
    return known === undefined ? nothing : (JSON.parse(known) as HistoryPosition)
  }

  /** Adds a message. Can be repeated, and drops the oldest items beyond the limits. */
  add(transfer: HistoryTransfer, { operations, alerts, series, position }: HistoryMessage, nowMs: number): void {
    const { transferId } = transfer
    const merged = this.#series(transferId)
    mergePart(merged, series, nowMs)
    for (const one of operations)
      this.#put(transfer, { kind: 'operation', key: one.id, atMs: one.createdAtMs, value: JSON.stringify(one) })
    for (const one of alerts)
      this.#put(transfer, { kind: 'alert', key: one.id, atMs: one.lastAtMs, value: JSON.stringify(one) })
    this.#put(transfer, { kind: 'series', key: '', atMs: 0, value: merged.toString('base64') })
    this.#put(transfer, { kind: 'position', key: '', atMs: 0, value: JSON.stringify(position) })
    for (const kind of ['operation', 'alert'] as const) this.#dropOldest(transferId, kind)
  }

  read({ transferId }: HistoryTransfer): ReceivedItems {
    const parse = <T>(kind: Kind): T[] => this.#values(transferId, kind).map((text) => JSON.parse(text) as T)
    return { operations: parse('operation'), alerts: parse('alert'), series: this.#series(transferId) }
  }

  /** Deletes everything that belongs neither to a guest that arrives now nor to the copy of a standby. */
  prune(): void {
    this.db.exec(`DELETE FROM received_history
      WHERE transfer_id NOT IN (
        SELECT o.move_id FROM guest_owners o JOIN guests g ON g.uuid = o.guest_uuid WHERE o.role = 'arriving')
      AND transfer_id NOT IN (SELECT standby_id FROM standby_copies WHERE removing = 0)`)
  }

  #series(transferId: string): Buffer {
    const [known = ''] = this.#values(transferId, 'series')
    const series = Buffer.alloc(seriesBytes)
    Buffer.from(known, 'base64').copy(series)
    return series
  }

  #values(transferId: string, kind: Kind): string[] {
    return this.db
      .prepare<[string, Kind], string>(
        'SELECT value FROM received_history WHERE transfer_id = ? AND kind = ? ORDER BY at_ms, key',
      )
      .pluck()
      .all(transferId, kind)
  }

  #put({ transferId, uuid }: HistoryTransfer, { kind, key, atMs, value }: Item): void {
    this.db
      .prepare(
        `INSERT OR REPLACE INTO received_history (transfer_id, guest_uuid, kind, key, at_ms, value)
         VALUES (?, ?, ?, ?, ?, ?)`,
      )
      .run(transferId, uuid, kind, key, atMs, value)
  }

  #dropOldest(transferId: string, kind: keyof typeof mostMoved): void {
    this.db
      .prepare(
        `DELETE FROM received_history WHERE transfer_id = ? AND kind = ? AND key IN (
           SELECT key FROM received_history WHERE transfer_id = ? AND kind = ?
           ORDER BY at_ms DESC, key DESC LIMIT -1 OFFSET ?)`,
      )
      .run(transferId, kind, transferId, kind, mostMoved[kind])
  }
}
