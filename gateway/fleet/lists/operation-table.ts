import type { Operation } from '../../../proto/gen/berth/agent/v1/operation.js'
import { guestSubjectOf, guestUuidOf } from '../operation-subject.js'
import type { OperationView } from '../reported.js'
import type { Fields } from '../../lists/query.js'
import { Table } from '../../lists/table.js'

export const operationStatuses = ['pending', 'running', 'done', 'failed', 'canceled'] as const

type OperationStatusName = (typeof operationStatuses)[number]

const known: ReadonlySet<string> = new Set(operationStatuses)

/** Converts a status of an agent. A status that this gateway does not know becomes `pending`. */
export function operationStatusOf({ status }: Operation): OperationStatusName {
  return known.has(status) ? (status as OperationStatusName) : 'pending'
}

/** True if the operation has ended and will not change any more. */
export function isEnded(operation: Operation): boolean {
  return ['done', 'failed', 'canceled'].includes(operationStatusOf(operation))
}

/** Fields of operations by their names in the API. Times have whole seconds, as the API shows them. */
export const operationFields = {
  status: ({ operation }) => operationStatusOf(operation),
  action: ({ operation }) => operation.action,
  container_id: ({ operation }) => guestSubjectOf(operation)?.number ?? 0,
  container_name: ({ operation }) => guestSubjectOf(operation)?.name ?? '',
  host_id: ({ hostId }) => hostId,
  user: ({ operation }) => operation.requestedBy,
  created_at: ({ operation }) => Math.floor(operation.createdAtMs / 1000),
  finished_at: ({ operation }) => Math.floor(operation.finishedAtMs / 1000),
} as const satisfies Fields<OperationView, string>

export type OperationField = keyof typeof operationFields

/** Operations by id, newest first. */
export class OperationTable extends Table<OperationView, OperationField> {
  readonly #byGuest = new Map<string, Set<string>>()

  constructor() {
    super({
      fields: operationFields,
      compare: newestFirst,
      counted: ['status', 'action', 'container_id', 'container_name', 'host_id', 'user'],
    })
  }

  override set(id: string, view: OperationView) {
    const before = this.find(id)
    // The table is sorted by time. If the agent has corrected an operation's time, the operation gets another position.
    if (before && newestFirst(before, view) !== 0) this.delete(id)
    else if (before) this.#forget(before)
    const guestUuid = guestUuidOf(view.operation)
    const ids = this.#byGuest.get(guestUuid) ?? new Set()
    this.#byGuest.set(guestUuid, ids.add(id))
    return super.set(id, view)
  }

  override delete(id: string): void {
    const before = this.find(id)
    if (before) this.#forget(before)
    super.delete(id)
  }

  /** Operations on these guests, newest first. */
  ofGuests(uuids: Iterable<string>): OperationView[] {
    const ids = [...uuids].flatMap((uuid) => [...(this.#byGuest.get(uuid) ?? [])])
    return ids.flatMap((id) => this.find(id) ?? []).sort(newestFirst)
  }

  /** Returns the newest operation of an action on a guest. */
  latestOf(guestUuid: string, action: string): OperationView | undefined {
    let latest: OperationView | undefined
    for (const id of this.#byGuest.get(guestUuid) ?? []) {
      const view = this.find(id)
      if (view?.operation.action === action && (!latest || newestFirst(view, latest) < 0)) latest = view
    }
    return latest
  }

  #forget({ operation }: OperationView): void {
    const guestUuid = guestUuidOf(operation)
    const ids = this.#byGuest.get(guestUuid)
    ids?.delete(operation.id)
    if (ids?.size === 0) this.#byGuest.delete(guestUuid)
  }
}

function newestFirst({ operation: a }: OperationView, { operation: b }: OperationView): number {
  return b.createdAtMs - a.createdAtMs || (b.id < a.id ? -1 : b.id > a.id ? 1 : 0)
}
