import type { OperationKind } from '../../operations/orders.js'
import type { DefinedOperation, OperationOutcome, Step } from '../../operations/types.js'
import type { GuestContext } from '../context.js'
import type { GuestRecord } from '../record.js'
import { getReadySnapshot, removeStrays } from '../snapshots.js'
import { ifPresent, withGuest } from '../steps.js'
import { acceptForGuest, refuseBroken } from './guest-order.js'
import { mark, settled } from './outcomes.js'
import { forgetKept, keptId, mayRun, replaceDiskSteps, volumeLimitOf } from './replace-disk.js'

interface RestoreInput {
  snapshotId: string
  /** What it would write while it shuts down is given up: its power is cut. */
  force: true
}

/**
 * What can fail without the guest is done while it runs. What its disk was is kept until the restored one works:
 * docs/decisions/0170.
 */
export function snapshotRestoreKind(context: GuestContext): OperationKind<'snapshotRestore', RestoreInput> {
  return {
    action: 'snapshot-restore',
    accept: ({ uuid, snapshotId }, asked) =>
      acceptForGuest(context, asked, {
        uuid,
        input: { snapshotId, force: true },
        check: (record) => {
          refuseBroken(record)
          getReadySnapshot(record, snapshotId)
        },
      }),
    begin: (operation) => {
      if (context.store.get(operation.subject.id).wanted === 'running')
        mark(context, 'restarting', 'running')(operation)
    },
    steps: replaceDiskSteps(context, {
      prepare: prepareStep(context),
      commit: { name: 'forget', run: (step) => forgetKept(context, step) },
    }),
    settle: (operation, outcome) => settleRestore(context, operation, outcome),
  }
}

function prepareStep(context: GuestContext): Step<RestoreInput> {
  const { volumes } = context
  return {
    name: 'prepare',
    run: withGuest<RestoreInput>(context, async (record, { input: { snapshotId: snapshot } }) => {
      await removeStrays(context, record.uuid)
      await volumes.prepare(record.uuid, { snapshot }, volumeLimitOf(context, record))
    }),
    undo: ifPresent(context, async ({ uuid }) => void (await volumes.discardNext(uuid))),
  }
}

function settleRestore(
  context: GuestContext,
  { id, subject }: DefinedOperation<RestoreInput>,
  outcome: OperationOutcome,
): void {
  const record = context.store.find(subject.id)
  if (!record || outcome.status === 'canceled') return
  const isWhole = outcome.status === 'done' || outcome.undone
  const reason = outcome.status === 'failed' ? outcome.message : ''
  settled(context, subject.id, isWhole && mayRun(record) ? 'running' : 'stopped', isWhole ? '' : reason)
  if (!isWhole) offerKept(context, record, keptId(id))
}

/** Neither the new disk works nor is the old one back: its owner may try to restore what it was. */
function offerKept({ store, now }: GuestContext, { uuid, snapshots }: GuestRecord, id: string): void {
  const description = 'before a restore that failed'
  const kept = { id, description, createdAtMs: now(), createdBy: 'system', scheduled: false, sizeBytes: 0 }
  store.update(uuid, { snapshots: [...snapshots, { ...kept, state: 'ready' }] })
}
