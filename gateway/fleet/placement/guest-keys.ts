import type { Store } from '../../store/store.js'
import type { Reservation } from './plan-claims.js'

/**
 * Names of the store's keys for ids, uuids, names and moves of guests.
 *
 * | key | holds |
 * |---|---|
 * | `guests` | hash: uuid → Reservation as JSON |
 * | `guest-ids` | hash: id → uuid |
 * | `guest-name:<lower case>` | uuid |
 * | `guest-operation:<operation id>` | uuid |
 * | `guest-moves` | hash: uuid → StoredMove as JSON |
 * | `former-guest:<uuid>` | last ownership generation of a deleted guest that had several owners, for a year |
 * | `next-guest-id` | the highest id assigned so far |
 */
export class GuestKeys {
  constructor(private readonly store: Pick<Store, 'key'>) {}

  get guests(): string {
    return this.store.key('guests')
  }

  get moves(): string {
    return this.store.key('guest-moves')
  }

  get ids(): string {
    return this.store.key('guest-ids')
  }

  get nextId(): string {
    return this.store.key('next-guest-id')
  }

  name(name: string): string {
    return this.store.key('guest-name', name.toLowerCase())
  }

  former(uuid: string): string {
    return this.store.key('former-guest', uuid)
  }

  operation(operationId: string): string {
    return this.store.key('guest-operation', operationId)
  }
}

export function parseReservation(text: string | null | undefined): Reservation | undefined {
  return text ? (JSON.parse(text) as Reservation) : undefined
}
