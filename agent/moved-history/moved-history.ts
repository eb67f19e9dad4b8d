import type { Logger } from 'pino'
import type { AlertStore } from '../abuse/alert-store.js'
import type { GuestHistory, HistoryPosition, HistoryTransfer, SentHistory } from '../guests/record/guest-history.js'
import { guestSubject } from '../guests/operations/guest-order.js'
import type { GuestRecord } from '../guests/record/record.js'
import type { GuestStore } from '../guests/record/guest-store.js'
import { rollUpEnded } from '../history/plan-series.js'
import { mergePart, planPart } from '../history/plan-transfer.js'
import type { SeriesFiles } from '../history/series-files.js'
import { MovedOperations } from '../operations/moved-operations.js'
import type { OperationStore } from '../operations/operation-store.js'
import { formatHistory, maxTextChars, mostMoved, parseHistory, type HistoryMessage, type SentAlert } from './message.js'
import { ReceivedHistory, type ReceivedItems } from './received-history.js'

export interface MovedHistoryParts {
  readonly store: GuestStore
  readonly operations: OperationStore
  readonly alerts: AlertStore
  readonly series: SeriesFiles
  readonly now: () => number
  readonly log: Logger
}

/** Collects the history of guests that leave this host, and stores the history of guests that arrive. */
export class MovedHistory implements GuestHistory {
  readonly #received: ReceivedHistory
  readonly #operations: MovedOperations

  constructor(private readonly parts: MovedHistoryParts) {
    this.#received = new ReceivedHistory(parts.store.changes.db)
    this.#operations = new MovedOperations(parts.operations)
  }

  collect(uuid: string, { revision, atMs }: HistoryPosition, except: string): string {
    const { store, alerts, series, now } = this.parts
    const operations = this.#operations.list(uuid, revision, mostMoved.operation)
    const message: HistoryMessage = {
      position: { revision: store.changes.revision, atMs: now() },
      operations: operations.filter(({ id }) => id !== except).map((one) => ({ ...one, error: cut(one.error) })),
      alerts: alerts.listOf(uuid, revision, mostMoved.alert).map((one) => ({ ...one, detail: cut(one.detail) })),
      series: planPart(series.readLatest(uuid), atMs),
    }
    return formatHistory(message)
  }

  removeLeft(uuid: string, { revision, except }: SentHistory): void {
    this.#operations.removeOf(uuid, { revision, except }, this.parts.now())
    this.parts.alerts.removeOf(uuid, revision)
  }

  position(transfer: HistoryTransfer): HistoryPosition {
    return this.#received.position(transfer)
  }

  receive(transfer: HistoryTransfer, raw: string): void {
    this.#received.add(transfer, parseHistory(raw, this.parts.now()), this.parts.now())
  }

  adopt(transfer: HistoryTransfer): void {
    const record = this.parts.store.get(transfer.uuid)
    const items = this.#received.read(transfer)
    const subject = { ...guestSubject(record.uuid), name: record.name, number: record.id }
    for (const operation of items.operations) this.#operations.adopt(subject, operation)
    for (const alert of items.alerts) this.#adoptAlert(record, alert)
    this.#adoptSeries(record.uuid, items)
  }

  #adoptAlert({ uuid, id, name }: GuestRecord, { id: alertId, samples, ...alert }: SentAlert): void {
    this.parts.alerts.adopt(alertId, { ...alert, guestUuid: uuid, guestId: id, guestName: name }, samples)
  }

  /**
   * Writes the file of the guest's series, which is not part of the transaction. This can be repeated. An error must not
   * prevent that this host becomes the owner of the guest.
   */
  #adoptSeries(uuid: string, { series: received }: ReceivedItems): void {
    const { series, now, log } = this.parts
    try {
      const merged = series.read(uuid)
      mergePart(merged, planPart(received, 0), now())
      rollUpEnded(merged, now())
      series.replace(uuid, merged)
    } catch (err) {
      log.error({ err, guest: uuid }, 'could not write the usage history of a guest that has arrived')
    }
  }

  prune(): void {
    this.#received.prune()
  }
}

function cut(text: string): string {
  return text.slice(0, maxTextChars)
}
