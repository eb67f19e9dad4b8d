import { conflict } from '../../../shared/errors.js'
import type { AcceptedOrder, OrderContext } from '../../operations/orders.js'
import type { SubjectRef } from '../../operations/types.js'
import { refuseDeleted } from '../deletion/plan-deletion.js'
import { isMovingText, refuseNotOwned } from '../moves/change-ownership.js'
import { parseUuid } from '../create/parse-create.js'
import type { GuestRecord } from '../record/record.js'
import type { GuestStore } from '../record/guest-store.js'

export function guestSubject(uuid: string): SubjectRef {
  return { kind: 'guest', id: uuid }
}

/**
 * Checks and accepts a request for an operation on a guest. Refuses it if the guest does not exist or is being deleted.
 * @param order `check` runs inside `reserve`, and throws to refuse the request. `allowsFenced` accepts an old copy of a
 * guest that belongs to another host now. `allowsDeleted` accepts a guest that is marked as deleted.
 * @throws {BerthError} `invalid_field`; the returned `reserve` throws `not_found`, `invalid_state`
 */
export function acceptForGuest<Input>(
  store: GuestStore,
  asked: OrderContext,
  order: {
    uuid: string
    input: Input
    allowsFenced?: boolean
    allowsDeleted?: boolean
    check?: (record: GuestRecord) => void
  },
): AcceptedOrder<Input> {
  const subject = guestSubject(parseUuid('uuid', order.uuid))
  const known = store.find(subject.id)
  return {
    subject: { ...subject, name: known?.name ?? '', number: known?.id ?? 0 },
    input: order.input,
    // The guest must exist only for a new request. A repeated request is answered even after the guest's deletion.
    reserve: () => {
      const record = store.get(subject.id)
      if (record.status === 'deleting' || asked.leaving(subject))
        throw conflict('invalid_state', 'the container is being deleted')
      if (!order.allowsFenced || record.ownership.role !== 'fenced') refuseNotOwned(record)
      if (!order.allowsDeleted) refuseDeleted(record)
      if (asked.moving(subject)) throw conflict('invalid_state', isMovingText)
      order.check?.(record)
    },
  }
}

/** Refuses operations on the system of a guest that is in rescue mode. @throws {BerthError} `invalid_state` */
export function refuseRescued({ boot }: GuestRecord): void {
  if (boot.mode === 'rescue') throw conflict('invalid_state', 'the container is in rescue mode: boot its disk first')
}

/** Refuses to delete the data of a protected guest. @throws {BerthError} `delete_protected` */
export function refuseProtected({ labels }: GuestRecord): void {
  if (labels.deleteProtected)
    throw conflict('delete_protected', 'the container is protected: set delete_protected to false first')
}

/** Refuses operations on a broken guest. @throws {BerthError} `invalid_state` */
export function refuseBroken({ status, statusReason }: GuestRecord): void {
  if (status === 'error')
    throw conflict('invalid_state', `the container is broken, it can only be deleted: ${statusReason}`)
}
