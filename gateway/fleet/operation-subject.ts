import type { Operation, Subject } from '../../proto/gen/berth/agent/v1/operation.js'

/** Uuid of the guest that the operation is about; empty: none. */
export function guestUuidOf({ subject }: Operation): string {
  return guestSubjectOf({ subject })?.id ?? ''
}

const kinds: readonly string[] = ['guest', 'backup']

/** The guest of an operation; operations on a guest's backups count for the guest. */
export function guestSubjectOf({ subject }: Pick<Operation, 'subject'>): Subject | undefined {
  return subject && kinds.includes(subject.kind) ? subject : undefined
}
