import type { ObservedState, StopCause } from '../drivers/contract.js'
import type { GuestRecord } from './record.js'
import type { GuestUpdate } from './store.js'

/** A guest that no operation is busy with, beside what is on the host. */
export interface Comparison {
  readonly record: Pick<GuestRecord, 'uuid' | 'status' | 'wanted'>
  readonly observed: ObservedState
  /** How it ended, where that was seen. */
  readonly ended: StopCause | undefined
  /** It may have ended in a way not told yet, or ended too often lately: not to be started now. */
  readonly held: boolean
  /** It may not run: its quota is used up, or it has expired. */
  readonly blocked: boolean
}

export type Repair =
  | { kind: 'update'; uuid: string; update: GuestUpdate }
  /** Start it again: the host went down or the guest was killed. */
  | { kind: 'start'; uuid: string }

/**
 * What to do where host and journal differ. What runs is never stopped: it may be right and the journal wrong.
 * Guests that run without the journal wanting it are taken over as running.
 */
export function planReconcile(comparisons: readonly Comparison[]): Repair[] {
  return comparisons.flatMap((comparison) => planGuest(comparison) ?? [])
}

function planGuest({ record, observed, ended, held, blocked }: Comparison): Repair | undefined {
  if (record.status === 'error' || observed === 'starting' || observed === 'stopping') return undefined
  if (observed === 'running')
    return differing(record, { status: 'running', wanted: 'running', statusReason: '' })
  if (record.wanted === 'stopped') return differing(record, { status: 'stopped' })
  if (ended === 'guest')
    return differing(record, { status: 'stopped', wanted: 'stopped', statusReason: 'shut down from inside' })
  if (blocked) return differing(record, { status: 'stopped', wanted: 'stopped', statusReason: 'blocked' })
  if (held) return differing(record, { status: 'stopped', statusReason: 'not running, to be started again' })
  return { kind: 'start', uuid: record.uuid }
}

function differing(record: Comparison['record'], update: GuestUpdate): Repair | undefined {
  const same = record.status === update.status && (update.wanted ?? record.wanted) === record.wanted
  return same ? undefined : { kind: 'update', uuid: record.uuid, update }
}
