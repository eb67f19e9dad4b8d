import type { OperationKind } from '../../operations/orders.js'
import type { Step } from '../../operations/types.js'
import type { DiskContext, GuestContext } from '../context.js'
import { refuseSuspended } from '../policy/policy.js'
import { getReadySnapshot, removeStrays } from '../snapshots/snapshots.js'
import { ifPresent, withGuest } from '../steps.js'
import { volumeLimitOf } from '../snapshots/volume-bound.js'
import { acceptForGuest, refuseBroken } from './guest-order.js'
import { mark } from './outcomes.js'
import { forgetKept, replaceDiskSteps } from './replace-disk.js'
import { settleRestore } from './settle-restore.js'

interface RestoreInput {
  snapshotId: string
  /** The guest is killed instead of shut down, because its last writes are discarded anyway. */
  force: true
}

/**
 * Restores a snapshot. The steps that can fail without an effect on the guest come before the stop of the guest. The
 * old disk is retained until the restored one works (docs/design/snapshots.md).
 */
export function snapshotRestoreKind(context: GuestContext): OperationKind<'snapshotRestore', RestoreInput> {
  return {
    action: 'snapshot-restore',
    accept: ({ uuid, snapshotId }, asked) =>
      acceptForGuest(context.store, asked, {
        uuid,
        input: { snapshotId, force: true },
        check: (record) => {
          refuseBroken(record)
          refuseSuspended(record)
          getReadySnapshot(record, snapshotId)
        },
      }),
    begin: (operation) => {
      if (context.store.get(operation.subject.id).wanted === 'running')
        mark(context.store, 'restarting', 'running')(operation)
    },
    steps: replaceDiskSteps(context, {
      prepare: prepareStep(context),
      commit: { name: 'forget', run: (step) => forgetKept(context, step) },
    }),
    settle: (operation, outcome) => settleRestore(context, operation, outcome),
  }
}

function prepareStep(context: DiskContext): Step<RestoreInput> {
  const { store, volumes } = context
  return {
    name: 'prepare',
    run: withGuest<RestoreInput>(store, async (record, { input: { snapshotId: snapshot } }) => {
      await removeStrays(context, record.uuid)
      await store.mutex.run(record.uuid, () =>
        volumes.prepare(record.uuid, { snapshot }, volumeLimitOf(context.machines, store.get(record.uuid))),
      )
    }),
    undo: ifPresent(store, async ({ uuid }) => void (await volumes.discardNext(uuid))),
  }
}
