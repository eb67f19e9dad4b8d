import type { Operation } from '../../proto/gen/berth/agent/v1/operation.js'

/** Uuid of the guest that the operation is about; empty: none. */
export function guestUuidOf({ subject }: Operation): string {
  return subject?.kind === 'guest' ? subject.id : ''
}
