import { randomUUID } from 'node:crypto'
import { expect } from 'chai'
import { guestKinds } from '../../agent/guests/operations/kinds.js'
import { scheduledSnapshotDefinition, scheduledSnapshots } from '../../agent/guests/operations/snapshot-scheduled.js'
import { noSchedule } from '../../agent/guests/record/snapshots-and-backups.js'
import {
  carryOut,
  openMemoryGuest,
  stateOf,
  submitOrder,
  type MemoryGuest,
  type WireOrder,
} from '../support/memory/memory-guest.js'
import { describeOperationMatrix, type MatrixSubject } from '../support/operations/operation-matrix.js'

/*
 * Injects every fault into every step of the operations on snapshots, on a simulated host. The guest runs. Its disk
 * contained `first` when the snapshot was created, and contains `second` now.
 */

const snapshotId = '00000000-0000-4000-8000-00000000000a'
const boot = ['configure', 'start']

describe('operations on snapshots, with a simulated host', () => {
  describeOperationMatrix('the creation of a snapshot', {
    steps: ['snapshot'],
    undone: ['snapshot'],
    prepare: () => prepare('snapshotCreate', (uuid) => ({ uuid, description: '' })),
  })
  describeOperationMatrix('the deletion of a snapshot', {
    steps: ['remove'],
    undone: [],
    prepare: () => prepare('snapshotDelete', (uuid) => ({ uuid, snapshotId })),
    checkFailed: (after, before, { phase }) => {
      if (phase === 'before-run') expect(after).to.deep.equal(before)
    },
  })
  describeOperationMatrix('the restore of a snapshot', {
    steps: ['prepare', 'stop', 'keep', 'exchange', ...boot, 'forget'],
    undone: ['prepare', 'stop', 'keep', 'exchange', 'start'],
    undoneFrom: 'start',
    prepare: () => prepare('snapshotRestore', (uuid) => ({ uuid, snapshotId })),
    // If the failure comes after `forget`, which deletes the former disk, the guest keeps the restored disk.
    checkFailed: (after, before, { step, phase }) => {
      const isOver = step === 'forget' && phase === 'after-run'
      expect(after).to.deep.equal(isOver ? { ...(before as object), content: 'first' } : before)
    },
  })
})

/** The guest already has one snapshot, which is its maximum. */
describe('operations on snapshots at a full quota, with a simulated host', () => {
  describeOperationMatrix('the scheduled creation of a snapshot', {
    steps: ['room', 'snapshot', 'drop'],
    undone: ['snapshot'],
    prepare: prepareScheduled,
    // The old snapshot that `drop` deletes cannot be restored. The product's `drop` logs errors and never fails.
    checkFailed: (after, before, { step, phase }) => {
      if (step === 'drop' && phase === 'after-run') return
      expect(after).to.deep.equal(before)
    },
  })
})

async function prepareScheduled(): Promise<MatrixSubject> {
  const subject = await prepareGuest()
  const { domain, uuid } = subject
  const { store } = domain.context
  store.update(uuid, {
    snapshotSchedule: { ...noSchedule, enabled: true, retention: 1 },
    snapshots: store.get(uuid).snapshots.map((snapshot) => ({ ...snapshot, scheduled: true })),
  })
  return {
    ...subject,
    definition: scheduledSnapshotDefinition(domain.context, domain.capacity),
    submit: (engine) =>
      engine.submit(scheduledSnapshots(domain.context).orderOf(store.get(uuid), { id: randomUUID(), nextRunMs: 1 })),
  }
}

type SnapshotOrder = 'snapshotCreate' | 'snapshotDelete' | 'snapshotRestore'

async function prepare(name: SnapshotOrder, valueOf: (uuid: string) => object): Promise<MatrixSubject> {
  const subject = await prepareGuest()
  const { domain, uuid } = subject
  return {
    ...subject,
    definition: guestKinds(domain.context, domain.capacity)[name],
    submit: (engine) => submitOrder(domain, engine, { $case: name, value: valueOf(uuid) } as WireOrder),
  }
}

async function prepareGuest() {
  const guest = await openMemoryGuest()
  const { host, domain, uuid } = guest
  host.contents.set(uuid, 'first')
  await carryOut(domain, { $case: 'snapshotCreate', value: { uuid, description: '' } }, snapshotId)
  host.contents.set(uuid, 'second')
  return { domain, uuid, changes: domain.changes, inventory: () => inventoryOf(guest), destroy: () => guest.destroy() }
}

async function inventoryOf(guest: MemoryGuest): Promise<unknown> {
  const { host, domain, uuid } = guest
  await domain.reconciler.pass()
  return {
    ...stateOf(guest),
    kept: [...(host.snapshots.get(uuid)?.values() ?? [])],
    shown: domain.context.store.get(uuid).snapshots.map(({ state, sizeBytes }) => ({ state, sizeBytes })),
  }
}
