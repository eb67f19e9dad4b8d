import type { OperationKind } from '../../operations/orders.js'
import type { StepContext } from '../../operations/types.js'
import type { HostCapacity } from '../resources/capacity.js'
import type { BackupContext, DiskContext } from '../context.js'
import type { GuestRecord } from '../record/record.js'
import { mayRun, refuseSuspended } from '../policy/policy.js'
import { endFetch, fetchStep, parseFetch, type FetchInput } from './fetch-backup.js'
import { acceptForGuest, refuseBroken } from './guest-order.js'
import { forgetKept, replaceDiskSteps } from './replace-disk.js'
import { settleRestore } from './settle-restore.js'

interface RestoreInput extends FetchInput {
  /** The guest is killed instead of shut down, because its last writes are discarded anyway. */
  force: true
}

/**
 * Restores a backup. The backup is fetched into a new volume while the guest runs. The volume then replaces the disk,
 * as in the restore of a snapshot.
 */
export function backupRestoreKind(
  context: BackupContext,
  capacity: Pick<HostCapacity, 'readDisk'>,
): OperationKind<'backupRestore', RestoreInput> {
  const { store } = context
  return {
    action: 'backup-restore',
    accept: (order, asked) => {
      const input: RestoreInput = { ...parseFetch(context.targets, order.uuid, order), force: true }
      const { target: _sealed, ...told } = input
      const check = (record: GuestRecord): void => {
        refuseBroken(record)
        refuseSuspended(record)
      }
      return {
        ...acceptForGuest(store, asked, { uuid: order.uuid, input, check }),
        hashOf: told,
      }
    },
    steps: replaceDiskSteps(context, {
      prepare: fetchStep(
        { context, capacity },
        (record) => void (mayRun(record) && store.update(record.uuid, { status: 'restarting' })),
      ),
      commit: { name: 'forget', run: (step) => commit(context, step) },
    }),
    settle: (operation, outcome) => settleRestore(context, operation, outcome),
  }
}

async function commit(context: DiskContext, step: StepContext<unknown>): Promise<void> {
  await forgetKept(context, step)
  await endFetch(context, step)
}
