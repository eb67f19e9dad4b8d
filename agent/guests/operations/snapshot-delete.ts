import type { OperationKind } from '../../operations/orders.js'
import type { DiskContext } from '../context.js'
import { awaitSettled, deleteCounted } from '../snapshots/snapshot-space.js'
import { forgetSnapshot, getReadySnapshot, updateSnapshot } from '../snapshots/snapshots.js'
import { acceptForGuest } from './guest-order.js'

interface DeleteInput {
  snapshotId: string
}

/**
 * Deletes a snapshot. The snapshot is hidden as soon as the deletion is submitted. From then on, only a restore that
 * was submitted earlier can use it.
 */
export function snapshotDeleteKind(context: DiskContext): OperationKind<'snapshotDelete', DeleteInput> {
  const { store } = context
  return {
    action: 'snapshot-delete',
    accept: ({ uuid, snapshotId }, asked) =>
      acceptForGuest(store, asked, {
        uuid,
        input: { snapshotId },
        check: (record) => {
          const { id } = getReadySnapshot(record, snapshotId)
          updateSnapshot(store, uuid, { id, state: 'deleting' })
        },
      }),
    steps: [
      {
        name: 'remove',
        run: async ({ subject, input, signal }) => {
          await deleteCounted(context, subject.id, input.snapshotId)
          await awaitSettled(context, subject.id, signal)
        },
      },
    ],
    settle: ({ subject, input: { snapshotId: id } }, { status }) => {
      if (status === 'done') forgetSnapshot(store, subject.id, id)
      else updateSnapshot(store, subject.id, { id, state: 'ready' })
    },
  }
}
