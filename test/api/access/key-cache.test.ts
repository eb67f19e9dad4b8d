import { expect } from 'chai'
import { perMinute, RateLimit } from '../../../shared/rate-limit.js'
import { CallerAuthenticator } from '../../../gateway/access/authenticate.js'
import { FailureLog } from '../../../gateway/access/failure-log.js'
import { KeyCache } from '../../../gateway/access/key-cache.js'
import { encodeRecord, type KeyRecord } from '../../../gateway/access/key-record.js'
import { createKeySecret, digestKey } from '../../../gateway/access/key-secret.js'
import { insertKey, keyNames } from '../../../gateway/access/key-store.js'
import { KeyUsage } from '../../../gateway/access/key-usage.js'
import { Store, type StoreClient } from '../../../gateway/store/store.js'
import { silentLog, startTestRedis, type TestRedis } from '../../support/gateway/redis.js'
import { waitFor } from '../../support/wait.js'

/** A store that can delay its replies to GET, counts its pings, and can act as if its connection had been lost. */
class HeldStore extends Store {
  gate = Promise.resolve()
  reads = 0
  pings = 0

  override run<T>(step: string, commands: (client: StoreClient) => Promise<T>): Promise<T> {
    if (step === 'ping') this.pings++
    return super.run(step, (client) => commands(this.#hold(client)))
  }

  forgetReplies(): void {
    this.trust.reset()
  }

  #hold(client: StoreClient): StoreClient {
    const held = Object.create(client) as StoreClient
    const get = async (key: string) => {
      const reply = await client.get(key)
      this.reads++
      await this.gate
      return reply
    }
    return Object.assign(held, { get })
  }
}

describe('the cache of API keys', () => {
  let redis: TestRedis
  let writer: Store
  let store: HeldStore
  let cache: KeyCache
  const key = createKeySecret()
  const record: KeyRecord = {
    id: 1,
    name: 'admin',
    digest: digestKey(key),
    prefix: '',
    addresses: [],
    scopes: ['*'],
    expiresAtMs: 0,
    disabled: false,
    containerUuids: [],
    createdAtMs: 0,
    parentId: 0,
  }
  let count = 0
  before(async () => {
    redis = await startTestRedis()
  })
  after(() => redis.stop())
  beforeEach(async () => {
    const prefix = `btest${++count}:`
    writer = await redis.openStore(prefix)
    store = new HeldStore({ url: redis.url, prefix, log: silentLog })
    cache = new KeyCache(store)
    store.start()
    await waitFor(() => store.ready())
    await insertKey(writer.client, keyNames(writer), record)
  })
  afterEach(() => store.close())

  const disable = () => writer.client.set(keyNames(writer).record(1), encodeRecord({ ...record, disabled: true }))

  it('reads a record again if the record changed during the first read', async () => {
    let open = () => undefined as void
    store.gate = new Promise((resolve) => (open = resolve))
    const loading = cache.load(record.digest)
    await waitFor(() => store.reads === 1)
    store.gate = store.gate.then(() => undefined)
    open()
    store.gate = new Promise((resolve) => (open = resolve))
    await waitFor(() => store.reads === 2)
    await disable()
    await store.ping()
    open()
    expect((await loading)?.rights.disabled).to.equal(true)
    expect(cache.get(record.digest)?.rights.disabled).to.equal(true)
  })

  it('drops a key if its creator changes', async () => {
    const child = createKeySecret()
    await insertKey(writer.client, keyNames(writer), {
      ...record,
      id: 2,
      digest: digestKey(child),
      parentId: 1,
    })
    await cache.load(digestKey(child))
    expect(cache.get(digestKey(child))?.rights.disabled).to.equal(false)
    await disable()
    await store.ping()
    expect(cache.get(digestKey(child))).to.equal(undefined)
    expect((await cache.load(digestKey(child)))?.rights.disabled).to.equal(true)
  })

  it('rejects a record with a wrong digest, and a key whose creator no longer exists', async () => {
    const stray = createKeySecret()
    await writer.client.set(keyNames(writer).digest(digestKey(stray)), '1')
    expect(await cache.load(digestKey(stray))).to.equal(undefined)
    const orphan = createKeySecret()
    await insertKey(writer.client, keyNames(writer), {
      ...record,
      id: 9,
      digest: digestKey(orphan),
      parentId: 5,
    })
    expect(await cache.load(digestKey(orphan))).to.deep.include({ complete: false })
  })

  it('stores the last use of a key when the store is back, even if the key has not been used again', async () => {
    const other = await redis.openStore('usage:')
    const usage = new KeyUsage(other, 20)
    const run = other.run.bind(other)
    let failures = 0
    other.run = () => Promise.reject(new Error(`away ${++failures}`))
    usage.note(7, 1_700_000_000_000, '192.0.2.1')
    await waitFor(() => failures >= 2, { what: 'another attempt' })
    other.run = run
    await waitFor(async () => (await other.client.hGet(keyNames(other).used, '7')) !== null)
    await usage.close()
  })

  it('returns keys only if the store has replied recently', async () => {
    const failures = new FailureLog(silentLog)
    const sessions = {
      has: () => false,
      find: () => Promise.resolve(undefined),
      peek: () => Promise.resolve(undefined),
    }
    const authenticator = new CallerAuthenticator({
      sessions,
      store,
      cache,
      failures,
      usage: new KeyUsage(store),
      limit: new RateLimit(perMinute(10)),
    })
    const ask = () => authenticator.authenticate({ headers: { 'x-api-key': key } }, '127.0.0.1')
    await ask()
    const before = store.pings
    await ask()
    expect(store.pings - before).to.be.at.most(1) // the gateway may also have sent a periodic ping
    store.forgetReplies()
    await ask()
    expect(store.pings).to.be.greaterThan(before)
    store.forgetReplies()
    process.kill(await redis.pid(), 'SIGSTOP')
    const failure = await ask().catch((error: unknown) => error)
    process.kill(await redis.pid(), 'SIGCONT')
    expect(failure).to.have.property('code', 'store_unavailable')
  })
})
