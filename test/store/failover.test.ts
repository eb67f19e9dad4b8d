import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { Store } from '../../gateway/store/store.js'
import { BerthError } from '../../shared/errors.js'
import { FailoverLoad } from '../support/gateway/failover-load.js'
import { silentLog } from '../support/gateway/redis.js'
import { RedisLab } from '../support/gateway/redis-lab.js'
import { waitFor } from '../support/wait.js'

/* Uses real Redis servers and Sentinels. After each test, the master has both replicas again. */

describe('the store on Redis with Sentinels', () => {
  let lab: RedisLab
  let stores: Store[] = []
  before(async () => (lab = await RedisLab.start()))
  after(() => lab.stop())
  afterEach(async () => {
    await lab.whole()
    await stores[0]?.run('remove the list', (client) => client.del('btest:list'))
    await Promise.all(stores.map((store) => store.close()))
    stores = []
  })

  const open = async (): Promise<Store> => {
    const store = new Store({ ...lab.server, prefix: 'btest:', log: silentLog })
    stores.push(store)
    store.start()
    await waitFor(() => store.ready(), { what: 'store connected' })
    return store
  }
  const write = (store: Store, value: string): Promise<string> =>
    store
      .run('write', (client) => client.rPush('btest:list', value))
      .then(
        () => 'ok',
        (error: unknown) => (error instanceof BerthError ? error.code : String(error)),
      )
  const readList = (store: Store): Promise<string[]> =>
    store.run('read', (client) => client.lRange('btest:list', 0, -1))

  /** Appends values to a list in the store. Each value is different, and failed writes are not repeated. */
  const writeContinuously = (store: Store): FailoverLoad => {
    const run = randomUUID()
    const writeOne = async (name: string): Promise<boolean> => (await write(store, `${run} ${name}`)) === 'ok'
    return new FailoverLoad({ writers: 8, pauseMs: 5, write: writeOne })
  }

  /** Fails if acknowledged values are missing, or values are in the store twice. */
  async function expectAll(store: Store, { acknowledged }: FailoverLoad): Promise<void> {
    const stored = await readList(store)
    const names = new Set(stored.map((value) => value.split(' ')[1]))
    const missing = [...acknowledged].filter((name) => !names.has(name))
    expect(missing, `of ${acknowledged.size} acknowledged values`).to.deep.equal([])
    expect(new Set(stored).size, 'values that are not stored twice').to.equal(stored.length)
    expect(acknowledged.size).to.be.greaterThan(10)
  }

  const faults: [string, (master: number) => Promise<void> | void][] = [
    ['is killed', (master) => lab.kill(master)],
    ['is cut off from replicas, Sentinels and the gateway', (master) => lab.cut(master)],
    ['is cut off from replicas and Sentinels, but not from the gateway', (master) => lab.isolate(master)],
    ['hangs', (master) => lab.signal(master, 'SIGSTOP')],
  ]
  const repair = (master: number): void => {
    lab.heal()
    lab.signal(master, 'SIGCONT')
  }

  for (const [name, fail] of faults)
    it(`loses no acknowledged write, and executes no write twice, if the Redis master ${name}`, async () => {
      const store = await open()
      const master = await lab.master()
      const failovers = store.failovers
      const writes = writeContinuously(store)
      await waitFor(async () => (await readList(store)).length > 0, { what: 'first writes' })
      await fail(master)
      await waitFor(() => store.failovers > failovers, { what: 'another master' })
      await waitFor(async () => (await write(store, randomUUID())) === 'ok', { what: 'writes are accepted again' })
      repair(master)
      if (name === 'is killed') lab.restart(master)
      await lab.whole()
      await writes.end()
      await expectAll(store, writes)
    })

  it('refuses writes, but not reads, while no replica confirms writes', async () => {
    const store = await open()
    const master = await lab.master()
    const replicas = [0, 1, 2].filter((index) => index !== master)
    replicas.forEach((index) => lab.signal(index, 'SIGSTOP'))
    try {
      expect(await write(store, randomUUID())).to.equal('store_unavailable')
      expect(await readList(store)).not.to.equal(undefined)
      expect(store.unconfirmed).to.be.greaterThan(0)
    } finally {
      replicas.forEach((index) => lab.signal(index, 'SIGCONT'))
    }
    await waitFor(async () => (await write(store, randomUUID())) === 'ok', { what: 'writes are accepted again' })
  })

  it('connects even if one of the Sentinels is down', async () => {
    await lab.killSentinel(0)
    const store = await open()
    expect(await write(store, randomUUID())).to.equal('ok')
  })
})
