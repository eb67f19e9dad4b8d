import type { ObservedState, StopCause } from '../../drivers/contract.js'
import type { GuestRecord } from '../record/record.js'
import type { GuestUpdate } from '../record/rows.js'

/** A guest without a running operation, compared with the state of the host. */
export interface Comparison {
  readonly record: Pick<GuestRecord, 'uuid' | 'status' | 'wanted' | 'ownership'>
  readonly observed: ObservedState
  /** The reason why the guest stopped, if the driver has reported it. */
  readonly ended: StopCause | undefined
  /**
   * True if the guest must not be started yet. Reasons: it was started too often recently, or the driver may still
   * report why it stopped.
   */
  readonly held: boolean
  /** True if the guest is not allowed to run, for example because its quota is used up or it has expired. */
  readonly blocked: boolean
}

export type GuestRepair =
  | { kind: 'update'; uuid: string; update: GuestUpdate }
  /** Starts the guest again, after the host went down or the guest was killed. */
  | { kind: 'start'; uuid: string }
  /** Ends a guest that belongs to another host. The agent was killed, or failed, before it ended this guest. */
  | { kind: 'end'; uuid: string }

/**
 * Plans repairs where the host differs from the journal. Ends a running guest only if it belongs to another host,
 * because it could run on both. Any other running guest is recorded as running, because the journal may be wrong.
 */
export function planReconcile(comparisons: readonly Comparison[]): GuestRepair[] {
  return comparisons.flatMap((comparison) => planGuest(comparison) ?? [])
}

function planGuest({ record, observed, ended, held, blocked }: Comparison): GuestRepair | undefined {
  if (record.ownership.role === 'fenced') return observed === 'stopped' ? undefined : { kind: 'end', uuid: record.uuid }
  if (record.status === 'error' || observed === 'starting' || observed === 'stopping') return undefined
  if (observed === 'running') return differing(record, { status: 'running', wanted: 'running', statusReason: '' })
  if (record.wanted === 'stopped') return differing(record, { status: 'stopped' })
  if (ended === 'guest')
    return differing(record, { status: 'stopped', wanted: 'stopped', statusReason: 'shut down from inside' })
  if (blocked) return differing(record, { status: 'stopped', wanted: 'stopped', statusReason: 'blocked' })
  if (held) return differing(record, { status: 'stopped', statusReason: heldReason(ended) })
  return { kind: 'start', uuid: record.uuid }
}

function heldReason(ended: StopCause | undefined): string {
  return ended === 'memory' ? 'killed because memory ran out, restarting it' : 'not running, restarting it'
}

function differing(record: Comparison['record'], update: GuestUpdate): GuestRepair | undefined {
  const same = record.status === update.status && (update.wanted ?? record.wanted) === record.wanted
  return same ? undefined : { kind: 'update', uuid: record.uuid, update }
}
