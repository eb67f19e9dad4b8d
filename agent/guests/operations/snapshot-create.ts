import { checkDescription } from '../../../shared/field-checks.js'
import type { OperationKind } from '../../operations/orders.js'
import type { Step } from '../../operations/types.js'
import { refuseFull } from '../../storage/room.js'
import type { HostCapacity } from '../resources/capacity.js'
import type { GuestContext } from '../context.js'
import { refuseBeyondSpace } from '../snapshots/plan-snapshot-space.js'
import { readExpected, takeCounted } from '../snapshots/snapshot-space.js'
import { forgetSnapshot, removeStrays, reserveSnapshot, updateSnapshot } from '../snapshots/snapshots.js'
import { thawGuest } from '../snapshots/thaw.js'
import { whileFrozen } from '../snapshots/while-frozen.js'
import { acceptForGuest, refuseBroken } from './guest-order.js'

interface SnapshotInput {
  description: string
}

/** Creates a snapshot, which gets the operation's id. */
export function snapshotCreateKind(
  context: GuestContext,
  { readDisk }: Pick<HostCapacity, 'readDisk'>,
): OperationKind<'snapshotCreate', SnapshotInput> {
  const { store, now } = context
  return {
    action: 'snapshot-create',
    accept: async ({ uuid, description }, asked) => {
      const input = { description: checkDescription('description', description) }
      const disk = await readDisk()
      const known = store.find(uuid)
      const expectedBytes = known ? await readExpected(context.volumes, known) : 0
      return acceptForGuest(store, asked, {
        uuid,
        input,
        check: (record) => {
          refuseBroken(record)
          refuseFull(disk)
          refuseBeyondSpace(record, expectedBytes)
          const { operationId: id, requestedBy: createdBy } = asked
          reserveSnapshot(store, record, { id, createdAtMs: now(), createdBy, description })
        },
      })
    },
    steps: [takeStep(context)],
    settle: ({ id, subject }, { status }) => {
      if (status === 'done') updateSnapshot(store, subject.id, { id, state: 'ready' })
      else forgetSnapshot(store, subject.id, id) // the guest's next snapshot deletes what this one left in the pool
    },
  }
}

/** Takes the snapshot that was reserved when the operation was submitted. The snapshot has the operation's id. */
export function takeStep(context: GuestContext): Step<unknown> {
  const { store, volumes, now } = context
  return {
    name: 'snapshot',
    run: async ({ operationId: id, subject }) => {
      await removeStrays(context, subject.id)
      const { made, sizeBytes } = await store.mutex.run(subject.id, () =>
        whileFrozen(context, store.get(subject.id), () => takeCounted(context, subject.id, id)),
      )
      const taken = { id, sizeBytes: sizeBytes ?? 0, ...(made ? { createdAtMs: now() } : {}) }
      updateSnapshot(store, subject.id, taken)
    },
    undo: async ({ operationId: id, subject }) => {
      const record = store.find(subject.id)
      if (!record) return
      await thawGuest(context, record)
      await volumes.deleteSnapshot(subject.id, id)
    },
  }
}
