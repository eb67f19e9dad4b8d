import type { DefinedOperation, OperationOutcome } from '../../operations/types.js'
import type { GuestContext } from '../context.js'
import { planAllowance, planRetained } from '../snapshots/plan-snapshot-space.js'
import type { GuestRecord } from '../record/record.js'
import { settled } from './outcomes.js'
import { mayRun } from '../policy/policy.js'
import { keptId } from './replace-disk.js'

/** Sets the status of a guest after the restore of a snapshot or a backup. */
export function settleRestore(
  context: Pick<GuestContext, 'store' | 'now'>,
  { id, subject }: DefinedOperation<unknown>,
  outcome: OperationOutcome,
): void {
  const record = context.store.find(subject.id)
  if (!record || outcome.status === 'canceled') return
  const isWhole = outcome.status === 'done' || outcome.undone
  const reason = outcome.status === 'failed' ? outcome.message : ''
  settled(context.store, subject.id, isWhole && mayRun(record) ? 'running' : 'stopped', isWhole ? '' : reason)
  if (!isWhole) offerKept(context, record, keptId(id))
}

/**
 * Makes the hidden snapshot of the old disk visible, so that the owner can try to restore the old disk. Call this if
 * the new disk does not work and the old disk could not be restored.
 */
function offerKept({ store, now }: Pick<GuestContext, 'store' | 'now'>, record: GuestRecord, id: string): void {
  const { uuid, snapshots } = record
  const description = 'before a restore that failed'
  const kept = { id, description, createdAtMs: now(), createdBy: 'system', scheduled: false, sizeBytes: 0 }
  // The disk limit need not rise, because `planAllowance` already counted the old disk as a hidden snapshot.
  const retainedBytes = Math.max(planRetained(record), planAllowance(record))
  const snapshotSpace = { ...record.snapshotSpace, retainedBytes }
  store.update(uuid, { snapshots: [...snapshots, { ...kept, state: 'ready' }], snapshotSpace })
}
