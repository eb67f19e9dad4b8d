import { randomUUID } from 'node:crypto'
import type { Statement } from 'better-sqlite3'
import type { Changes } from '../state/changes.js'
import type { RecordedFlow } from './contract.js'
import { quietMs, type AlertState } from './plan-merge.js'

export interface AlertRecord extends AlertState {
  readonly id: string
  readonly revision: number
}

interface Sampled {
  readonly samples: readonly RecordedFlow[]
}

interface Row {
  id: string
  guest_uuid: string
  last_at_ms: number
  alert: string
  samples: string
  revision: number
}

/** Stores alerts in the table `alerts`. Each change of an alert notifies watchers, except a change of its samples. */
export class AlertStore {
  readonly #changes: Changes
  readonly #byId: Statement<[string], Row>
  readonly #since: Statement<[number], Row>
  readonly #recent: Statement<[number], Row>
  readonly #ofGuest: Statement<[string, number], Row>
  readonly #write: Statement<[Row]>

  constructor(changes: Changes) {
    this.#changes = changes
    const { db } = changes
    this.#byId = db.prepare('SELECT * FROM alerts WHERE id = ?')
    this.#since = db.prepare('SELECT * FROM alerts WHERE revision > ? ORDER BY revision')
    this.#recent = db.prepare('SELECT * FROM alerts WHERE last_at_ms > ? ORDER BY last_at_ms')
    this.#ofGuest = db.prepare('SELECT * FROM alerts WHERE guest_uuid = ? ORDER BY last_at_ms DESC LIMIT ?')
    this.#write = db.prepare(
      `INSERT OR REPLACE INTO alerts (id, guest_uuid, last_at_ms, alert, samples, revision)
       VALUES (@id, @guest_uuid, @last_at_ms, @alert, @samples, @revision)`,
    )
  }

  list(sinceRevision: number): AlertRecord[] {
    return this.#since.all(sinceRevision).map(recordOf)
  }

  find(id: string): AlertRecord | undefined {
    const row = this.#byId.get(id)
    return row && recordOf(row)
  }

  /** Returns open alerts, oldest first. An alert is open while a further finding would extend it. */
  open(nowMs: number): AlertRecord[] {
    return this.#recent.all(nowMs - quietMs).map(recordOf)
  }

  /** Returns the recorded flows that are stored with a guest's newest alerts. @param alerts maximum number of alerts */
  samplesOf(guestUuid: string, alerts: number): RecordedFlow[] {
    return this.#ofGuest.all(guestUuid, alerts).flatMap(({ samples }) => JSON.parse(samples) as RecordedFlow[])
  }

  /** Changes an alert, or creates one without an `id`. @param samples undefined: keeps the old ones. @returns the id */
  put(id: string | undefined, alert: AlertState, samples?: readonly RecordedFlow[]): string {
    const known = id ?? randomUUID()
    this.#changes.transaction(() => {
      const kept = samples ? JSON.stringify(samples) : (this.#byId.get(known)?.samples ?? '[]')
      const revision = this.#changes.record('alert', known)
      const { guestUuid, lastAtMs } = alert
      const text = JSON.stringify(alert)
      const columns = { guest_uuid: guestUuid, last_at_ms: lastAtMs, alert: text, samples: kept, revision }
      this.#write.run({ id: known, ...columns })
    })
    return known
  }

  /** Returns the guest's alerts that changed after a revision, newest first, with their samples. */
  listOf(guestUuid: string, sinceRevision: number, limit: number): (AlertRecord & Sampled)[] {
    const rows = this.#ofGuest.all(guestUuid, limit).filter(({ revision }) => revision > sinceRevision)
    return rows.map((row) => ({ ...recordOf(row), samples: JSON.parse(row.samples) as RecordedFlow[] }))
  }

  /** Adds an alert of a guest that has arrived. An alert of another guest with the same id stays. */
  adopt(id: string, alert: AlertState, samples: readonly RecordedFlow[]): void {
    const known = this.find(id)
    if (known === undefined || known.guestUuid === alert.guestUuid) this.put(id, { ...alert, moved: true }, samples)
  }

  /** Deletes the alerts of a guest that moved with it to another host: those that did not change after `revision`. */
  removeOf(guestUuid: string, revision: number): void {
    const moved = this.#ofGuest.all(guestUuid, -1).filter((alert) => alert.revision <= revision)
    this.#delete(moved.map(({ id }) => id))
  }

  /** Deletes alerts that are older than `beforeMs`. If more than `keep` are left, deletes the oldest ones, too. */
  prune(beforeMs: number, keep: number): void {
    const { db } = this.#changes
    const ids = db
      .prepare<[number, number], string>(
        `SELECT id FROM alerts WHERE last_at_ms < ?
         UNION SELECT id FROM (SELECT id FROM alerts ORDER BY last_at_ms DESC LIMIT -1 OFFSET ?)`,
      )
      .pluck()
      .all(beforeMs, keep)
    this.#delete(ids)
  }

  #delete(ids: readonly string[]): void {
    if (ids.length === 0) return
    this.#changes.transaction(() => {
      for (const id of ids) {
        this.#changes.record('alert', id, true)
        this.#changes.db.prepare('DELETE FROM alerts WHERE id = ?').run(id)
      }
    })
  }
}

function recordOf({ id, alert, revision }: Row): AlertRecord {
  return { ...(JSON.parse(alert) as AlertState), id, revision }
}
