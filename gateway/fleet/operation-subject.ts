import type { Operation, Subject } from '../../proto/gen/berth/agent/v1/operation.js'

/** Uuid of the guest that the operation changes. Empty: the operation does not belong to a guest. */
export function guestUuidOf({ subject }: Operation): string {
  return guestSubjectOf({ subject })?.id ?? ''
}

const kinds: readonly string[] = ['guest', 'backup']

/** The guest of an operation. Operations on backups belong to the guest of the backup. */
export function guestSubjectOf({ subject }: Pick<Operation, 'subject'>): Subject | undefined {
  return subject && kinds.includes(subject.kind) ? subject : undefined
}
