import { randomUUID } from 'node:crypto'
import { expect } from 'chai'
import type { Domain } from '../../agent/daemon/domain.js'
import { scheduledBackupDefinition, scheduledBackups } from '../../agent/guests/operations/backup-scheduled.js'
import { guestSubject } from '../../agent/guests/operations/guest-order.js'
import { endRoom, makeRoom, raiseBound, withRoom } from '../../agent/guests/operations/restore-room.js'
import { noBackupSchedule } from '../../agent/guests/record/snapshots-and-backups.js'
import type { BackupTarget } from '../../proto/gen/berth/agent/v1/backup.js'
import { createRequest } from '../support/host/agent-calls.js'
import { memoryTargets } from '../support/memory/memory-backups.js'
import {
  carryOut,
  openMemoryGuest,
  stateOf,
  submitOrder,
  type MemoryGuest,
  type WireOrder,
} from '../support/memory/memory-guest.js'
import { refusal } from '../support/refusal.js'
import { silentLog } from '../support/gateway/redis.js'
import { waitFor } from '../support/wait.js'
import { describeOperationMatrix, type MatrixSubject } from '../support/operations/operation-matrix.js'

/*
 * Injects every fault into every step of the operations on backups, with a simulated host and backup target. The guest
 * runs. Its disk contained `first` when it was backed up, and contains `second` now.
 */

const backupId = '00000000-0000-4000-8000-00000000000b'
const boot = ['configure', 'start']

describe('operations on backups, with a simulated host', () => {
  describeOperationMatrix('the creation of a backup', {
    steps: ['snapshot', 'send', 'drop', 'verify'],
    undone: ['snapshot', 'send'],
    prepare: () => prepare('backupCreate', ({ uuid, target }) => ({ uuid, target, description: '' })),
  })
  describeOperationMatrix('the scheduled creation of a backup', {
    steps: ['room', 'snapshot', 'send', 'drop', 'verify', 'rotate'],
    undone: ['snapshot', 'send'],
    undoneFrom: 'verify',
    prepare: prepareScheduled,
    // The old backup that `rotate` deletes cannot be restored. The product's `rotate` logs errors and never fails.
    checkFailed: (after, before, { step, phase }) => {
      if (step !== 'rotate' || phase !== 'after-run') expect(after).to.deep.equal(before)
    },
  })
  describeOperationMatrix('the deletion of a backup', {
    steps: ['forget'],
    undone: [],
    prepare: () => prepare('backupDelete', ({ uuid, target }) => ({ uuid, target, backupId })),
    checkFailed: (after, before, { phase }) => {
      if (phase === 'before-run') expect(after).to.deep.equal(before)
    },
  })
  describeOperationMatrix('the restore of a backup', {
    steps: ['fetch', 'stop', 'keep', 'exchange', ...boot, 'forget'],
    undone: ['fetch', 'stop', 'keep', 'exchange', 'start'],
    undoneFrom: 'start',
    prepare: () => prepare('backupRestore', ({ uuid, target }) => ({ uuid, target, backupId, sourceUuid: uuid })),
    // If the failure comes after `forget`, which deletes the former disk, the guest keeps the restored disk.
    checkFailed: (after, before, { step, phase }) => {
      const isOver = step === 'forget' && phase === 'after-run'
      expect(after).to.deep.equal(isOver ? { ...(before as object), content: 'first' } : before)
    },
  })
  describeOperationMatrix('the creation of a guest from a backup', {
    steps: ['volume', 'fetch', 'exchange', ...boot, 'forget'],
    undone: ['volume', 'fetch', 'configure', 'start'],
    prepare: prepareNew,
  })
})

describe('the additional space reserved for a restore', () => {
  const gib = 1024 ** 3
  let guest: MemoryGuest
  before(async () => {
    guest = await openMemoryGuest()
  })
  after(() => guest.destroy())

  const room = () => {
    const { fetchedBytes, extraBytes } = guest.domain.context.store.get(guest.uuid)
    return { fetchedBytes, extraBytes, boundBytes: guest.host.bounds.get(guest.uuid) }
  }
  const untilChecked = async (times: number): Promise<void> => {
    const before = guest.host.freedChecks
    await waitFor(() => guest.host.freedChecks >= before + times, { what: 'checks of the deleted disk' })
  }

  it('is released by the restore after the space of the old disk was freed', async () => {
    const { host, uuid, domain } = guest
    const { context } = domain
    const soldBytes = context.store.get(uuid).spec.limits.diskGb * gib
    context.store.update(uuid, { extraBytes: 300 })
    await raiseBound(context, uuid, 1000)
    const raised = { fetchedBytes: 1000, extraBytes: 300, boundBytes: soldBytes + 1300 }
    expect(room()).to.deep.equal(raised)
    host.areFreed = false
    const { signal } = new AbortController()
    const ended = endRoom(context, { subject: guestSubject(uuid), signal, log: silentLog }, { extraBytes: 100 })
    await untilChecked(2)
    expect(room()).to.deep.equal({ ...raised, fetchedBytes: 1200, extraBytes: 100 })
    host.areFreed = true
    await ended
    expect(room()).to.deep.equal({ fetchedBytes: 0, extraBytes: 100, boundBytes: soldBytes + 100 })
  })

  it('is released later, by a check of the host, if the restore ended before the old disk was freed', async () => {
    const { host, uuid, domain } = guest
    await raiseBound(domain.context, uuid, 1000)
    host.areFreed = false
    await domain.reconciler.pass()
    expect(room().fetchedBytes).to.equal(1000)
    await withRoom(domain.context, uuid, () => Promise.resolve())
    expect(room().fetchedBytes, 'after other work on the disk').to.equal(1000)
    host.areFreed = true
    await domain.reconciler.pass()
    expect(room().fetchedBytes).to.equal(0)
  })

  it('is refused only if the pool is still full after the space of deleted disks was freed', async () => {
    const { host, uuid, domain } = guest
    const { signal } = new AbortController()
    const size = { sizeBytes: gib, fileCount: 1 }
    const { totalBytes, usedBytes } = host.pool
    const make = () => makeRoom(domain.context, { uuid, size, signal }, domain.capacity)
    host.pool = { totalBytes, usedBytes: totalBytes }
    expect(await refusal(make())).to.match(/^storage_full: /)
    host.areFreed = false
    const made = make()
    await untilChecked(1)
    host.pool = { totalBytes, usedBytes }
    host.areFreed = true
    await made
    expect(room().fetchedBytes).to.be.above(gib)
  })
})

interface About {
  readonly uuid: string
  readonly target: BackupTarget
}

/** Makes a backup of the guest at a new target. */
async function backUp({ domain, uuid }: MemoryGuest): Promise<BackupTarget> {
  const target: BackupTarget = {
    id: randomUUID(),
    name: 'vault',
    password: 'a-password-of-it',
    verifyPercent: 100,
    place: { $case: 'local', value: { path: '/srv/backups' } },
  }
  await carryOut(domain, { $case: 'backupCreate', value: { uuid, target, description: '' } }, backupId)
  return target
}

type BackupOrder = 'backupCreate' | 'backupDelete' | 'backupRestore'

interface PreparedGuest extends MatrixSubject, About {
  readonly domain: Domain
}

async function prepare(name: BackupOrder, valueOf: (about: About) => object): Promise<PreparedGuest> {
  const guest = await openMemoryGuest()
  const { host, domain, uuid } = guest
  host.contents.set(uuid, 'first')
  const target = await backUp(guest)
  host.contents.set(uuid, 'second')
  return {
    domain,
    uuid,
    target,
    changes: domain.changes,
    definition: domain.kinds[name],
    submit: (engine) => submitOrder(domain, engine, { $case: name, value: valueOf({ uuid, target }) } as WireOrder),
    inventory: () => inventoryOf(guest, target),
    destroy: () => guest.destroy(),
  }
}

const newGuest = { generation: 0, former: undefined, sharedPools: [], standbyId: '' }

/** Prepares the creation of a second guest from the backup of the first guest. */
async function prepareNew(): Promise<MatrixSubject> {
  const guest = await openMemoryGuest()
  const { host, domain, uuid: sourceUuid } = guest
  host.contents.set(sourceUuid, 'first')
  const target = await backUp(guest)
  const { operationId: _, ...create } = createRequest(2, 'copy')
  const made = { ...guest, uuid: create.uuid }
  const order = { $case: 'createFromBackup', value: { create, target, backupId, sourceUuid, ...newGuest } } as const
  return {
    changes: domain.changes,
    definition: domain.kinds.createFromBackup,
    submit: (engine) => submitOrder(domain, engine, order),
    inventory: async () => {
      await domain.reconciler.pass()
      const found = domain.context.store.find(create.uuid)
      const left = { next: host.next.has(create.uuid), volume: host.volumes.has(create.uuid) }
      return { ...left, ...(found && { ...stateOf(made), fetchedBytes: found.fetchedBytes }) }
    },
    destroy: () => guest.destroy(),
  }
}

/** Prepares a scheduled backup, which deletes the existing backup. */
async function prepareScheduled(): Promise<MatrixSubject> {
  const subject = await prepare('backupDelete', () => ({}))
  const { domain, uuid, target } = subject
  const { context } = domain
  const schedule = { ...noBackupSchedule, enabled: true, intervalHours: 24, time: '03:30', retention: 1 }
  const sealed = { targetId: target.id, target: context.targets.seal(uuid, target) }
  context.store.update(uuid, {
    backupSchedule: { ...schedule, ...sealed },
    backups: context.store.get(uuid).backups.map((backup) => ({ ...backup, scheduled: true })),
  })
  return {
    ...subject,
    definition: scheduledBackupDefinition(context),
    submit: async (engine) =>
      engine.submit(scheduledBackups(context).orderOf(context.store.get(uuid), { id: randomUUID(), nextRunMs: 1 })),
  }
}

async function inventoryOf(guest: MemoryGuest, target: BackupTarget): Promise<unknown> {
  const { host, domain, uuid } = guest
  await domain.reconciler.pass()
  const { backups, fetchedBytes } = domain.context.store.get(uuid)
  return {
    ...stateOf(guest),
    fetchedBytes,
    snapshots: host.snapshots.get(uuid)?.size ?? 0,
    next: host.next.has(uuid),
    kept: [...(memoryTargets.get(target.id)?.get(uuid)?.values() ?? [])].map(({ content }) => content),
    shown: backups.map(({ state, sizeBytes, verifiedAtMs }) => ({ state, sizeBytes, verified: verifiedAtMs > 0 })),
  }
}
