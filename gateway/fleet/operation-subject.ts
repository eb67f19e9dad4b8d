import type { Operation } from '../../proto/gen/berth/agent/v1/operation.js'

/** Of the guest that it is about; empty: about none. */
export function guestUuidOf({ subject }: Operation): string {
  return subject?.kind === 'guest' ? subject.id : ''
}
