import { expect } from 'chai'
import { createClient } from 'redis'
import { BerthError } from '../../shared/errors.js'
import { trustMs } from '../../gateway/store/plan-visibility.js'
import { Store } from '../../gateway/store/store.js'
import { silentLog, startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { waitFor } from '../support/wait.js'
import { deadlineOf, quickest } from '../support/promised-time.js'

describe('the connection to the store', () => {
  let redis: TestRedis
  afterEach(async () => redis.stop())

  it('fails immediately, with the reason, while the server does not run', async () => {
    redis = await startTestRedis()
    const store = new Store({ url: 'unix:///tmp/btest-no-such.sock', prefix: 'x:', log: silentLog })
    store.start()
    await waitFor(() => store.reason().includes('ENOENT'))
    let failure: unknown
    const fails = async (): Promise<void> => {
      failure = await store.run('read', (client) => client.get('a')).catch((error: unknown) => error)
    }
    expect(await quickest(3, fails), 'ms').to.be.lessThan(1000)
    expect(codeOf(failure)).to.equal('unavailable store_unavailable')
    await store.close()
  })

  it('waits for a server that pauses for 3 s', async () => {
    redis = await startTestRedis()
    const store = await redis.openStore()
    const pid = await redis.pid()
    process.kill(pid, 'SIGSTOP')
    const read = store.run('read', (client) => client.get('a'))
    setTimeout(() => process.kill(pid, 'SIGCONT'), 3000)
    expect(await read).to.equal(null)
  })

  it('reports a server that hangs as unavailable, and recovers when the server continues', async () => {
    redis = await startTestRedis()
    const store = await redis.openStore()
    const pid = await redis.pid()
    process.kill(pid, 'SIGSTOP')
    try {
      const failure = await store.run('read', (client) => client.get('a')).catch((error: unknown) => error)
      expect(codeOf(failure)).to.equal('unavailable store_unavailable')
      expect(store.ready()).to.equal(false)
    } finally {
      process.kill(pid, 'SIGCONT')
    }
    await waitFor(() => store.ready(), { what: 'it is back' })
    expect(await store.run('read', (client) => client.get('a'))).to.equal(null)
  })

  it('reports a server without free memory as unavailable, but can still read from this server', async () => {
    redis = await startTestRedis({ extraConfig: ['maxmemory 3mb'] })
    const store = await redis.openStore()
    const failure = await fill(store)
    expect(codeOf(failure)).to.equal('unavailable store_unavailable')
    expect(String((failure as Error).cause)).to.contain('OOM')
    expect(await store.run('read', (client) => client.get('btest:0'))).to.have.length(10_000)
  })

  it('reports a server that is a read-only replica as unavailable', async () => {
    redis = await startTestRedis({ extraConfig: ['replicaof 127.0.0.1 1', 'replica-serve-stale-data yes'] })
    const store = await redis.openStore()
    const failure = await store.run('write', (client) => client.set('a', '1')).catch((error: unknown) => error)
    expect(codeOf(failure)).to.equal('unavailable store_unavailable')
  })

  it('reports an invalid command as an internal error', async () => {
    redis = await startTestRedis()
    const store = await redis.openStore()
    await store.run('write', (client) => client.set('a', '1'))
    const failure = await store.run('push', (client) => client.lPush('a', '1')).catch((error: unknown) => error)
    expect(codeOf(failure)).to.equal('internal internal_error')
  })

  it('repeats a transaction if another client changes keys of the transaction while it runs', async () => {
    redis = await startTestRedis()
    const [one, two] = [await redis.openStore(), await redis.openStore()]
    const add = (store: Store) =>
      store.transact('add', async (client) => {
        await client.watch('sum')
        const sum = Number(await client.get('sum'))
        await client
          .multi()
          .set('sum', String(sum + 1))
          .exec()
      })
    await Promise.all(Array.from({ length: 60 }, (_, i) => add(i % 2 ? one : two)))
    expect(await one.run('read', (client) => client.get('sum'))).to.equal('60')
  })

  it('reports changes of keys with a given prefix by any client, and the loss of the connection', async () => {
    redis = await startTestRedis()
    const writer = await redis.openStore()
    const store = new Store({ url: redis.url, prefix: 'btest:', log: silentLog })
    const heard: string[] = []
    store.onInvalidate(store.key('a', ''), (key) => heard.push(key ?? 'all'))
    store.on('down', () => heard.push('down'))
    store.start()
    await waitFor(() => store.ready())
    await writer.run('write', (client) => client.set('btest:a:1', '1'))
    await writer.run('write', (client) => client.set('btest:b:1', '1'))
    await store.ping()
    expect(heard).to.deep.equal(['btest:a:1'])
    process.kill(await redis.pid(), 'SIGKILL')
    await waitFor(() => heard.includes('down'))
    await waitFor(() => store.ready() && writer.ready())
    await writer.run('write', (client) => client.set('btest:a:2', '1'))
    await store.ping()
    expect(heard).to.deep.equal(['btest:a:1', 'down', 'btest:a:2'])
    await store.close()
  })

  describe('if the gateway is slow to apply a change', () => {
    let store: Store
    let other: ReturnType<typeof createClient>
    let served: number
    let apply: () => void
    beforeEach(async () => {
      redis = await startTestRedis()
      other = createClient({ url: redis.url, RESP: 3 })
      await other.connect()
      served = 0
      await other.subscribe('btest:visibility', (text) => void (served += text.includes('"serving"') ? 1 : 0))
      store = new Store({ url: redis.url, prefix: 'btest:', log: silentLog })
      const applied = new Promise<void>((resolve) => (apply = resolve))
      store.onInvalidate(store.key('a'), () => applied)
      store.start()
      await waitFor(() => store.ready())
      await other.set('btest:a', '1')
      await store.ping() // answered after the server's report of the change
      await store.ping() // answered after all earlier commands
    })
    afterEach(async () => {
      await store.close()
      other.destroy()
    })

    it('does not report its caches as current to other gateways before the change is applied', async () => {
      const before = served
      for (let exchange = 0; exchange < 3; exchange++) await store.ping()
      await other.ping()
      expect(served).to.equal(before)
      apply()
      await store.current()
      await waitFor(() => served > before)
    })

    it('lets requests that need the change fail after some time', async () => {
      await waitFor(() => performance.now() - store.confirmedAtMs() > trustMs)
      let failure: unknown
      store.current().catch((error: unknown) => (failure = error))
      await waitFor(() => failure !== undefined, { timeoutMs: deadlineOf(5000) })
      expect(codeOf(failure)).to.equal('unavailable store_unavailable')
      apply()
      await store.current()
    })
  })
})

async function fill(store: Store): Promise<unknown> {
  const value = 'x'.repeat(10_000)
  for (let i = 0; i < 1000; i++) {
    const failure = await store
      .run('write', (client) => client.set(`btest:${i}`, value))
      .then(
        () => undefined,
        (error: unknown) => error,
      )
    if (failure) return failure
  }
  return undefined
}

function codeOf(error: unknown): string {
  return error instanceof BerthError ? `${error.kind} ${error.code}` : String(error)
}
