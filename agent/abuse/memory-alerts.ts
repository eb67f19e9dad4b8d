import { Throttle } from '../../shared/async/throttle.js'
import type { GuestContext } from '../guests/context.js'
import type { GuestRecord } from '../guests/record/record.js'
import { worse } from './contract.js'
import { isOpen, type AlertState } from './plan-merge.js'
import type { AlertRecord, AlertStore } from './alert-store.js'

/** Minimum time in ms between two writes of a running guest's alert, because many processes can be killed at once. */
const gatherMs = 60_000

/** Report about processes that the kernel killed because a guest's memory ran out. */
export interface MemoryKillReport {
  readonly kills: number
  /** True if the guest ended because its memory ran out. */
  readonly ended: boolean
}

export interface MemoryAlertParts {
  readonly context: Pick<GuestContext, 'store' | 'log' | 'now'>
  readonly alerts: AlertStore
}

/** Raises alerts for guests whose memory ran out. While a guest runs, its alert is written at most once a minute. */
export class MemoryAlerts {
  /** By guest uuid. `waiting`: kills that are not in the guest's alert yet. `writtenMs`: time of the last write. */
  readonly #guests = new Map<string, { waiting: number; writtenMs: number }>()
  readonly #flushes = new Throttle(() => this.#flush(), { intervalMs: gatherMs })

  constructor(private readonly parts: MemoryAlertParts) {
    parts.context.store.changes.onChange(({ kind, key, removed }) => {
      if (kind === 'guest' && removed) this.#guests.delete(key)
    })
  }

  note(uuid: string, { kills, ended }: MemoryKillReport): void {
    const record = this.parts.context.store.find(uuid)
    if (!record) return
    const nowMs = this.parts.context.now()
    const known = this.#guests.get(uuid) ?? { waiting: 0, writtenMs: -Infinity }
    const waiting = known.waiting + kills
    const isDue = ended || Math.abs(nowMs - known.writtenMs) >= gatherMs
    this.#guests.set(uuid, isDue ? { waiting: 0, writtenMs: nowMs } : { ...known, waiting })
    if (isDue) this.#write(record, { kills: waiting, ended }, nowMs)
    else this.#flushes.request()
  }

  close(): void {
    this.#flushes.close()
  }

  /** Adds kills that are not stored yet to the guests' alerts. If a write fails (full disk), tries again later. */
  #flush(): void {
    try {
      for (const [uuid, { waiting }] of this.#guests) if (waiting > 0) this.#flushGuest(uuid, waiting)
    } catch (err) {
      this.parts.context.log.error(
        { err },
        'could not store alerts about guests that ran out of memory; the agent tries again',
      )
      this.#flushes.request()
    }
  }

  #flushGuest(uuid: string, kills: number): void {
    const nowMs = this.parts.context.now()
    const record = this.parts.context.store.find(uuid)
    if (record) this.#write(record, { kills, ended: false }, nowMs)
    this.#guests.set(uuid, { waiting: 0, writtenMs: nowMs })
  }

  #write(record: GuestRecord, report: MemoryKillReport, nowMs: number): void {
    const { alerts, context } = this.parts
    const open = alerts
      .open(nowMs)
      .find((alert) => alert.guestUuid === record.uuid && alert.type === 'out_of_memory' && isOpen(alert, nowMs))
    const alert = planMemoryAlert(open, report, { record, nowMs })
    alerts.put(open?.id, alert)
    context.log.warn({ guest: record.uuid, detail: alert.detail }, 'a guest ran out of memory')
  }
}

/** Plans the alert for a report about killed processes. @param before the alert to extend; undefined: a new alert */
export function planMemoryAlert(
  before: AlertRecord | undefined,
  { kills, ended }: MemoryKillReport,
  { record, nowMs }: { readonly record: GuestRecord; readonly nowMs: number },
): AlertState {
  const { uuid, id, name, ipv4, spec } = record
  const count = (before?.count ?? 0) + kills
  const severity = ended ? 'high' : 'medium'
  const memory = `the memory limit of ${spec.limits.ramMb} MB was reached`
  const killed = `${memory}, and the kernel killed ${count === 1 ? '1 process' : `${count} processes`} of the guest`
  return {
    guestUuid: uuid,
    guestId: id,
    guestName: name,
    type: 'out_of_memory',
    severity: before ? worse(before.severity, severity) : severity,
    sourceIp: ipv4,
    targetIp: '',
    targetPort: 0,
    detail: ended ? `the guest was killed: ${memory}` : killed,
    firstAtMs: before?.firstAtMs ?? nowMs,
    lastAtMs: nowMs,
    count,
    action: '',
    stopAtMs: 0,
    criticalAtMs: 0,
  }
}
