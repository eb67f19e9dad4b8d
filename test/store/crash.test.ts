import { expect } from 'chai'
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { AuditStore } from '../../gateway/access/audit.js'
import { createAdminKey } from '../../gateway/access/bootstrap.js'
import { KeyCache } from '../../gateway/access/key-cache.js'
import { digestKey } from '../../gateway/access/key-secret.js'
import { RedisProcess } from '../../gateway/store/redis-process.js'
import { Store } from '../../gateway/store/store.js'
import type { AcknowledgedKey } from '../support/gateway/access-worker.js'
import { nodeOptions, programPath } from '../support/programs.js'
import { redisDirectory, silentLog } from '../support/gateway/redis.js'
import { waitFor } from '../support/wait.js'

const kills = 10

describe('API keys and audit entries while gateway and Redis are killed', () => {
  let stateDir: string
  let redis: RedisProcess
  let worker: ChildProcess | undefined
  const acknowledged: AcknowledgedKey[] = []
  before(async () => {
    stateDir = await redisDirectory()
    await createAdminKey(stateDir, join(stateDir, 'admin.key'))
    redis = new RedisProcess({
      program: '/usr/bin/redis-server',
      stateDir,
      runDir: `${stateDir}/run`,
      log: silentLog,
    })
  })
  after(async () => {
    worker?.kill('SIGKILL')
    await redis.stop()
    await rm(stateDir, { recursive: true, force: true })
  })

  const startWorker = (): ChildProcess => {
    const program = programPath('test/support/gateway/access-worker.ts')
    const child = fork(program, [stateDir], { execArgv: [...nodeOptions] })
    child.on('message', (message) => acknowledged.push(message as AcknowledgedKey))
    return child
  }

  it(`are never lost in ${kills} kills if they were acknowledged`, async function () {
    worker = startWorker()
    for (let kill = 0; kill < kills; kill++) {
      const count = acknowledged.length
      await waitFor(() => acknowledged.length > count + Math.random() * 100)
      if (kill % 2 === 0) process.kill(await waitFor(() => redis.findPid()), 'SIGKILL')
      if (kill % 4 === 1 || kill % 8 === 0) {
        const killed = worker
        killed.kill('SIGKILL')
        await once(killed, 'exit')
        worker = startWorker()
      }
    }
    worker.kill('SIGKILL')
    await once(worker, 'exit')
    await redis.start()
    await expectAll()
  })

  async function expectAll(): Promise<void> {
    const store = new Store({ url: redis.url, prefix: 'btest:', log: silentLog })
    const cache = new KeyCache(store)
    store.start()
    await waitFor(() => store.ready())
    for (const { id, key } of acknowledged)
      expect((await cache.load(digestKey(key)))?.record.id, `key ${id}`).to.equal(id)
    expect(new Set(acknowledged.map(({ id }) => id)).size).to.equal(acknowledged.length)
    const { records } = await new AuditStore(store, 1_000_000, silentLog).read({ guests: 'all' })
    const ended = new Set(records.filter((record) => record.success).map((record) => record.detail))
    for (const { id } of acknowledged) expect(ended.has(String(id)), `audit entry of key ${id}`).to.equal(true)
    expect(acknowledged.length).to.be.greaterThan(kills)
    await store.close()
  }
})
