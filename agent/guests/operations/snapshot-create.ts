import { checkDescription } from '../../../shared/field-checks.js'
import type { OperationKind } from '../../operations/orders.js'
import type { Step } from '../../operations/types.js'
import { refuseFull } from '../../storage/room.js'
import type { HostCapacity } from '../capacity.js'
import { driverOf, type GuestContext } from '../context.js'
import type { GuestRecord } from '../record.js'
import { forgetSnapshot, removeStrays, reserveSnapshot, updateSnapshot } from '../snapshots.js'
import { acceptForGuest, refuseBroken } from './guest-order.js'

interface SnapshotInput {
  description: string
}

/** A guest that does not freeze within this goes on, and its snapshot is what a power loss would leave. */
const freezeTimeoutMs = 500

/** The snapshot has the operation's id. */
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
      return acceptForGuest(context, asked, {
        ...{ uuid, input },
        check: (record) => {
          refuseBroken(record)
          refuseFull(disk)
          const { operationId: id, requestedBy: createdBy } = asked
          reserveSnapshot(store, record, { id, createdAtMs: now(), createdBy, description })
        },
      })
    },
    steps: [takeStep(context)],
    settle: ({ id, subject }, { status }) => {
      if (status === 'done') updateSnapshot(store, subject.id, { id, state: 'ready' })
      else forgetSnapshot(store, subject.id, id) // what of it is left, the next one removes
    },
  }
}

/** The snapshot has the operation's id and was reserved with the order. */
export function takeStep(context: GuestContext): Step<unknown> {
  const { store, volumes, turns, now } = context
  return {
    name: 'snapshot',
    run: async ({ operationId: id, subject }) => {
      await removeStrays(context, subject.id)
      const { made, sizeBytes } = await turns.run(subject.id, () =>
        whileFrozen(context, store.get(subject.id), () => volumes.snapshot(subject.id, id)),
      )
      const taken = { id, sizeBytes: sizeBytes ?? 0, ...(made ? { createdAtMs: now() } : {}) }
      updateSnapshot(store, subject.id, taken)
    },
    undo: async ({ operationId: id, subject }) => {
      const record = store.find(subject.id)
      if (!record) return
      await driverOf(context, record).thaw(context.machineOf(record))
      await volumes.deleteSnapshot(subject.id, id)
    },
  }
}

/** That a guest cannot be frozen is no reason to have no snapshot of it; it always goes on afterwards. */
async function whileFrozen<T>(
  context: GuestContext,
  record: GuestRecord,
  work: () => Promise<T>,
): Promise<T> {
  const [driver, machine] = [driverOf(context, record), context.machineOf(record)]
  try {
    await driver
      .freeze(machine, freezeTimeoutMs)
      .catch((err: unknown) => context.log.warn({ err, guest: record.uuid }, 'freeze for a snapshot'))
    return await work()
  } finally {
    await driver.thaw(machine)
  }
}
