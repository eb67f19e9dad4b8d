import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { AgentConfigSchema } from '../../agent/config.js'
import { Closers } from '../../agent/daemon/closers.js'
import { openDomain, type Domain } from '../../agent/daemon/domain.js'
import { guestKinds } from '../../agent/guests/operations/kinds.js'
import {
  scheduledSnapshotDefinition,
  scheduledSnapshotOrder,
} from '../../agent/guests/operations/snapshot-scheduled.js'
import { noSchedule } from '../../agent/guests/record.js'
import { Orders } from '../../agent/operations/orders.js'
import type { OperationEngine } from '../../agent/operations/engine.js'
import type { OperationRecord } from '../../agent/operations/types.js'
import type { SubmitOperationRequest } from '../../proto/gen/berth/agent/v1/operation.js'
import { validateConfig } from '../../shared/config.js'
import { createOrder, createRequest } from '../support/agent-calls.js'
import { MemoryHost } from '../support/memory-host.js'
import { describeOperationMatrix, type MatrixSubject } from '../support/operation-matrix.js'
import { silentLog } from '../support/redis.js'

type WireOrder = NonNullable<SubmitOperationRequest['order']>

/*
 * Every step of what is done with snapshots, on a host in memory: failing, with the agent gone, run and undone twice.
 * The guest runs; its disk had `first` on it when the snapshot was taken, and has `second`.
 */

const snapshotId = '00000000-0000-4000-8000-00000000000a'
const boot = ['configure', 'network', 'start']

describe('operations with snapshots', () => {
  describeOperationMatrix('take', {
    ...{ steps: ['snapshot'], undone: ['snapshot'] },
    prepare: () => prepare('snapshotCreate', (uuid) => ({ uuid, description: '' })),
  })
  describeOperationMatrix('delete', {
    ...{ steps: ['remove'], undone: [] },
    prepare: () => prepare('snapshotDelete', (uuid) => ({ uuid, snapshotId })),
    checkFailed: (after, before, { phase }) => {
      if (phase === 'before-run') expect(after).to.deep.equal(before)
    },
  })
  describeOperationMatrix('restore', {
    steps: ['prepare', 'stop', 'keep', 'exchange', ...boot, 'forget'],
    undone: ['prepare', 'stop', 'keep', 'exchange', 'start'],
    undoneFrom: 'start',
    prepare: () => prepare('snapshotRestore', (uuid) => ({ uuid, snapshotId })),
    // Once what the disk was is gone there is no way back: the guest has the restored one, and runs.
    checkFailed: (after, before, { step, phase }) => {
      const isOver = step === 'forget' && phase === 'after-run'
      expect(after).to.deep.equal(isOver ? { ...(before as object), content: 'first' } : before)
    },
  })
})

/** The guest keeps one, and has it. */
describe('a scheduled snapshot', () => {
  describeOperationMatrix('take', {
    ...{ steps: ['room', 'snapshot', 'drop'], undone: ['snapshot'] },
    prepare: prepareScheduled,
    // What is dropped is gone; its own step never fails.
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
      engine.submit(
        scheduledSnapshotOrder(domain.context, store.get(uuid), { id: randomUUID(), nextRunMs: 1 }),
      ),
  }
}

type SnapshotOrder = 'snapshotCreate' | 'snapshotDelete' | 'snapshotRestore'

async function prepare(name: SnapshotOrder, valueOf: (uuid: string) => object): Promise<MatrixSubject> {
  const subject = await prepareGuest()
  const { domain, uuid } = subject
  return {
    ...subject,
    definition: guestKinds(domain.context, domain.capacity)[name],
    submit: (engine) => submit(domain, engine, { $case: name, value: valueOf(uuid) } as WireOrder),
  }
}

async function prepareGuest() {
  const directory = mkdtempSync(join(tmpdir(), 'btest-snapshot-matrix-'))
  const closers = new Closers()
  const host = new MemoryHost()
  const given = { state_dir: directory, run_dir: join(directory, 'run'), time_zone: 'UTC' }
  const config = validateConfig(AgentConfigSchema, given, 'test')
  const domain = await openDomain(host.open(config), { config, log: silentLog }, closers)
  await domain.images.sweep()
  domain.engine.recover()
  await carryOut(domain, createOrder(createRequest(1, 'matrix')).order!)
  const { uuid } = domain.context.store.list()[0]!
  host.contents.set(uuid, 'first')
  await carryOut(domain, { $case: 'snapshotCreate', value: { uuid, description: '' } }, snapshotId)
  host.contents.set(uuid, 'second')
  return {
    ...{ domain, uuid, changes: domain.changes },
    inventory: async () => inventoryOf(host, domain, uuid),
    destroy: async () => {
      await closers.run()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

async function inventoryOf(host: MemoryHost, domain: Domain, uuid: string): Promise<unknown> {
  await domain.reconciler.pass()
  const { status, wanted, snapshots } = domain.context.store.get(uuid)
  return {
    ...{ status, wanted, runs: host.driver.running.has(uuid), content: host.contents.get(uuid) },
    kept: [...(host.snapshots.get(uuid)?.values() ?? [])],
    shown: snapshots.map(({ state, sizeBytes }) => ({ state, sizeBytes })),
  }
}

async function carryOut(domain: Domain, order: WireOrder, id: string = randomUUID()): Promise<void> {
  await submit(domain, domain.engine, order, id)
  const { status, error } = await domain.engine.wait(id)
  expect(status, error).to.equal('done')
}

async function submit(
  domain: Domain,
  engine: OperationEngine,
  order: WireOrder,
  operationId: string = randomUUID(),
): Promise<OperationRecord> {
  const orders = new Orders(engine, domain.kinds)
  return (await orders.submit({ operationId, requestedBy: 'test', order })).operation
}
