import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { AgentConfigSchema } from '../../agent/config.js'
import { Closers } from '../../agent/daemon/closers.js'
import { openDomain, type Domain } from '../../agent/daemon/domain.js'
import { Orders } from '../../agent/operations/orders.js'
import type { OperationEngine } from '../../agent/operations/engine.js'
import type { OperationRecord } from '../../agent/operations/types.js'
import type { BackupTarget } from '../../proto/gen/berth/agent/v1/backup.js'
import type { SubmitOperationRequest } from '../../proto/gen/berth/agent/v1/operation.js'
import { validateConfig } from '../../shared/config.js'
import { createOrder, createRequest } from '../support/agent-calls.js'
import { memoryTargets } from '../support/memory-backups.js'
import { MemoryHost } from '../support/memory-host.js'
import { describeOperationMatrix, type MatrixSubject } from '../support/operation-matrix.js'
import { silentLog } from '../support/redis.js'

type WireOrder = NonNullable<SubmitOperationRequest['order']>

/*
 * Every step of what is done with backups, on a host and at a target in memory: failing, with the agent gone, run and
 * undone twice. The guest runs; its disk had `first` on it when the backup was made, and has `second`.
 */

const backupId = '00000000-0000-4000-8000-00000000000b'
const boot = ['configure', 'network', 'start']

describe('operations with backups', () => {
  describeOperationMatrix('make', {
    ...{ steps: ['snapshot', 'send', 'drop', 'verify'], undone: ['snapshot', 'send'] },
    prepare: () => prepare('backupCreate', ({ uuid, target }) => ({ uuid, target, description: '' })),
  })
  describeOperationMatrix('delete', {
    ...{ steps: ['forget'], undone: [] },
    prepare: () => prepare('backupDelete', ({ uuid, target }) => ({ uuid, target, backupId })),
    checkFailed: (after, before, { phase }) => {
      if (phase === 'before-run') expect(after).to.deep.equal(before)
    },
  })
  describeOperationMatrix('restore', {
    steps: ['fetch', 'stop', 'keep', 'exchange', ...boot, 'forget'],
    undone: ['fetch', 'stop', 'keep', 'exchange', 'start'],
    undoneFrom: 'start',
    prepare: () =>
      prepare('backupRestore', ({ uuid, target }) => ({ uuid, target, backupId, sourceUuid: uuid })),
    // Once what the disk was is gone there is no way back: the guest has the restored one, and runs.
    checkFailed: (after, before, { step, phase }) => {
      const isOver = step === 'forget' && phase === 'after-run'
      expect(after).to.deep.equal(isOver ? { ...(before as object), content: 'first' } : before)
    },
  })
})

interface About {
  readonly uuid: string
  readonly target: BackupTarget
}

type BackupOrder = 'backupCreate' | 'backupDelete' | 'backupRestore'

async function prepare(name: BackupOrder, valueOf: (about: About) => object): Promise<MatrixSubject> {
  const directory = mkdtempSync(join(tmpdir(), 'btest-backup-matrix-'))
  const closers = new Closers()
  const host = new MemoryHost()
  const given = { state_dir: directory, run_dir: join(directory, 'run'), time_zone: 'UTC' }
  const config = validateConfig(AgentConfigSchema, given, 'test')
  const domain = await openDomain(host.open(config), { config, log: silentLog }, closers)
  await domain.images.sweep()
  domain.engine.recover()
  await carryOut(domain, createOrder(createRequest(1, 'matrix')).order!)
  const { uuid } = domain.context.store.list()[0]!
  const target: BackupTarget = {
    ...{ id: randomUUID(), name: 'vault', password: 'a-password-of-it', verifyPercent: 100 },
    place: { $case: 'local', value: { path: '/srv/backups' } },
  }
  host.contents.set(uuid, 'first')
  await carryOut(domain, { $case: 'backupCreate', value: { uuid, target, description: '' } }, backupId)
  host.contents.set(uuid, 'second')
  return {
    changes: domain.changes,
    definition: domain.kinds[name],
    submit: (engine) =>
      submit(domain, engine, { $case: name, value: valueOf({ uuid, target }) } as WireOrder),
    inventory: async () => inventoryOf(host, domain, { uuid, target }),
    destroy: async () => {
      await closers.run()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

async function inventoryOf(host: MemoryHost, domain: Domain, { uuid, target }: About): Promise<unknown> {
  await domain.reconciler.pass()
  const { status, wanted, backups, fetchedBytes } = domain.context.store.get(uuid)
  return {
    ...{ status, wanted, runs: host.driver.running.has(uuid), content: host.contents.get(uuid) },
    ...{ fetchedBytes, snapshots: host.snapshots.get(uuid)?.size ?? 0, next: host.next.has(uuid) },
    kept: [...(memoryTargets.get(target.id)?.get(uuid)?.values() ?? [])].map(({ content }) => content),
    shown: backups.map(({ state, sizeBytes, verifiedAtMs }) => ({
      ...{ state, sizeBytes },
      verified: verifiedAtMs > 0,
    })),
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
