import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { AgentConfigSchema } from '../../agent/config.js'
import { Closers } from '../../agent/daemon/closers.js'
import { openDomain } from '../../agent/daemon/domain.js'
import { Orders } from '../../agent/operations/orders.js'
import { validateConfig } from '../../shared/config.js'
import { createOrder, createRequest } from '../support/host/agent-calls.js'
import { MemoryHost } from '../support/memory/memory-host.js'
import { silentLog } from '../support/gateway/redis.js'

const guests = 12

describe('guests that are created at the same time', () => {
  const closers = new Closers()
  const directory = mkdtempSync(join(tmpdir(), 'btest-crowd-'))

  after(async () => {
    await closers.run()
    rmSync(directory, { recursive: true, force: true })
  })

  it('all get their disks before the first of them boots', async () => {
    const host = new MemoryHost()
    const given = { state_dir: directory, run_dir: join(directory, 'run'), operations: { parallel: 2 } }
    const config = validateConfig(AgentConfigSchema, given, 'test')
    const { engine, images, kinds } = await openDomain(host.open(config), { config, log: silentLog }, closers)
    await images.sweep()
    engine.recover()
    let ordered = (): void => undefined
    const allOrdered = new Promise<void>((resolve) => (ordered = resolve))
    const initialize = host.driver.initialize.bind(host.driver)
    host.driver.initialize = (...given) => allOrdered.then(() => initialize(...given))
    const start = host.driver.start.bind(host.driver)
    const disks: number[] = []
    host.driver.start = (...given) => {
      disks.push(host.driver.logins.size)
      return start(...given)
    }
    const orders = new Orders(engine, kinds)
    const ids = Array.from({ length: guests }, () => randomUUID())
    for (const [index, operationId] of ids.entries())
      await orders.submit({
        operationId,
        requestedBy: 'test',
        order: createOrder(createRequest(index + 1, `crowd-${index}`)).order!,
      })
    ordered()
    await Promise.all(ids.map((id) => engine.wait(id)))
    expect(disks).to.have.lengthOf(guests)
    expect(disks[0]).to.equal(guests)
  })
})
