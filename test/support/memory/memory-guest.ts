import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { AgentConfigSchema } from '../../../agent/config.js'
import { Closers } from '../../../agent/daemon/closers.js'
import { openDomain, type Domain } from '../../../agent/daemon/domain.js'
import type { OperationEngine } from '../../../agent/operations/engine.js'
import { Orders } from '../../../agent/operations/orders.js'
import type { OperationRecord } from '../../../agent/operations/types.js'
import type { SubmitOperationRequest } from '../../../proto/gen/berth/agent/v1/operation.js'
import { validateConfig } from '../../../shared/config.js'
import { createOrder, createRequest } from '../host/agent-calls.js'
import { MemoryHost } from './memory-host.js'
import { silentLog } from '../gateway/redis.js'

export type WireOrder = NonNullable<SubmitOperationRequest['order']>

/** A guest that runs on a simulated host, with the domain and journal of an agent of its own. */
export interface MemoryGuest {
  readonly host: MemoryHost
  readonly domain: Domain
  readonly uuid: string
  destroy(): Promise<void>
}

/** @param whileCreating called while the guest's disk is created */
export async function openMemoryGuest(
  whileCreating: (domain: Domain) => Promise<unknown> = () => Promise.resolve(),
): Promise<MemoryGuest> {
  const directory = mkdtempSync(join(tmpdir(), 'btest-memory-guest-'))
  const closers = new Closers()
  const host = new MemoryHost()
  const given = { state_dir: directory, run_dir: join(directory, 'run'), time_zone: 'UTC' }
  const config = validateConfig(AgentConfigSchema, given, 'test')
  const domain = await openDomain(host.open(config), { config, log: silentLog }, closers)
  await domain.images.sweep()
  domain.engine.recover()
  host.faults.clone = async () => void (await whileCreating(domain))
  await carryOut(domain, createOrder(createRequest(1, 'matrix')).order!)
  delete host.faults.clone
  const { uuid } = domain.context.store.list()[0]!
  return {
    host,
    domain,
    uuid,
    destroy: async () => {
      await closers.run()
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

/** Submits an operation. Resolves when it has succeeded. @param id id of the operation */
export async function carryOut(domain: Domain, order: WireOrder, id: string = randomUUID()): Promise<void> {
  await submitOrder(domain, domain.engine, order, id)
  const { status, error } = await domain.engine.wait(id)
  expect(status, error).to.equal('done')
}

/** @param engine the engine to use, which may have failing steps */
export async function submitOrder(
  domain: Domain,
  engine: OperationEngine,
  order: WireOrder,
  operationId: string = randomUUID(),
): Promise<OperationRecord> {
  const orders = new Orders(engine, domain.kinds)
  return (await orders.submit({ operationId, requestedBy: 'test', order })).operation
}

/** Returns the parts of a guest's state that snapshots and backups must not change. */
export function stateOf({ host, domain, uuid }: MemoryGuest): object {
  const { status, wanted } = domain.context.store.get(uuid)
  return { status, wanted, runs: host.driver.running.has(uuid), content: host.contents.get(uuid) }
}
