import { conflict } from '../../../shared/errors.js'
import { isAllowedToRun } from '../policy/policy.js'
import type { GuestRecord } from '../record/record.js'
import type { GuestUpdate } from '../record/rows.js'

/* The rules of deletions that can be undone, without I/O (docs/design/deletion.md). */

type Deletable = Pick<GuestRecord, 'deletion' | 'suspension' | 'wanted' | 'policy' | 'traffic'>

/** Plans a deletion that can be undone. If the guest is suspended, it does not start when its suspension ends. */
export function planDelete({ suspension, wanted }: Deletable, nowMs: number, retainMs: number): GuestUpdate {
  const resumes = wanted === 'running' || (suspension?.resumes ?? false)
  return {
    deletion: { sinceMs: nowMs, untilMs: nowMs + retainMs, resumes },
    ...(suspension && { suspension: { ...suspension, resumes: false } }),
  }
}

/** Plans to undo a deletion. A guest that ran before its deletion runs again now, or at the end of its suspension. */
export function planUndelete(record: Deletable): GuestUpdate {
  const { deletion, suspension } = record
  if (!deletion?.resumes) return { deletion: null }
  if (suspension?.mode === 'stop') return { deletion: null, suspension: { ...suspension, resumes: true } }
  return { deletion: null, ...(isAllowedToRun(record) && { wanted: 'running' }) }
}

export interface RemovalCheck {
  /** True if an operation that removes the guest is pending or running. */
  readonly isBeingRemoved: (uuid: string) => boolean
}

/** @throws {BerthError} `invalid_state` if the guest is being removed */
export function refuseRemoved({ isBeingRemoved }: RemovalCheck, uuid: string): void {
  if (isBeingRemoved(uuid)) throw conflict('invalid_state', 'the container is being deleted')
}

/** Refuses a deleted guest. Only undeletion, removal and moves are allowed. @throws {BerthError} `invalid_state` */
export function refuseDeleted({ deletion }: Pick<GuestRecord, 'deletion'>): void {
  if (deletion)
    throw conflict('invalid_state', 'the container is deleted already: undelete it first, or delete it with now=true')
}
