import { expect } from 'chai'
import { createAccess, noLimits } from '../../gateway/callers.js'
import { defaultRetention } from '../../gateway/retention.js'
import { AuditStore } from '../../gateway/access/audit.js'
import { IdempotencyStore } from '../../gateway/access/idempotency.js'
import { GatewayInstance } from '../../gateway/store/instance.js'
import { readShares } from '../../gateway/store/shares.js'
import { Store, type StoreClient } from '../../gateway/store/store.js'
import { silentLog, startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { waitFor } from '../support/wait.js'

const dayMs = 86_400_000

describe('the retention of data in the store', () => {
  let redis: TestRedis
  let store: Store
  let prefix: string
  let count = 0
  before(async () => {
    redis = await startTestRedis()
  })
  after(() => redis.stop())
  beforeEach(async () => {
    prefix = `btest${++count}:`
    store = await redis.openStore(prefix)
  })

  const start = (target: string) =>
    ({
      action: 'container.create',
      caller: { ref: 'key:1', user: 'api:admin' },
      target,
      address: '',
      requestId: '',
    }) as never

  /** Adds an audit entry that is `days` days old, and its outcome. */
  async function addAged(target: string, days: number): Promise<void> {
    const id = `${Date.now() - days * dayMs}-0`
    const entry = { by: 'key:1', action: 'a', target, user: 'u', address: '', request_id: '' }
    await store.client.xAdd(store.key('audit'), id, { e: JSON.stringify(entry) })
    const outcome = { of: id, success: '1', target, detail: '', container: '' }
    await store.client.xAdd(store.key('audit-outcome'), id, { e: JSON.stringify(outcome) })
  }
  const targets = async (audit: AuditStore): Promise<string[]> =>
    (await audit.read({ guests: 'all' })).records.map(({ target }) => target)

  it('deletes audit entries, and also outcomes of earlier versions, after the configured number of days', async () => {
    const audit = new AuditStore(store, 1000, silentLog)
    for (const [target, days] of [
      ['oldest', 40],
      ['old', 31],
      ['young', 29],
    ] as const)
      await addAged(target, days)
    const entry = await audit.begin(start('new'))
    await audit.finish(entry, { success: true, target: 'new', detail: '' })
    await audit.trim(30)
    expect(await targets(audit)).to.deep.equal(['new', 'young'])
    expect(await store.client.hLen(store.key('audit-outcomes'))).to.equal(2)
    expect(await store.client.xLen(store.key('audit-outcome'))).to.equal(0)
  })

  it('keeps the outcome of an audit entry for one hour if the entry is not written yet', async () => {
    const audit = new AuditStore(store, 1000, silentLog)
    const add = (stream: string, id: string, fields: Record<string, string>) =>
      store.client.xAdd(store.key(stream), id, { e: JSON.stringify(fields) })
    const minuteMs = 60_000
    const [young, old] = [`${Date.now() - minuteMs}-0`, `${Date.now() - 61 * minuteMs}-0`]
    const outcome = { success: '1', target: 'late', detail: '', container: '' }
    for (const id of [old, young]) await add('audit-outcome', id, { ...outcome, of: id })
    await audit.trim(30)
    expect(await store.client.xLen(store.key('audit-outcome')), 'only the old one is gone').to.equal(1)
    await add('audit', young, {
      by: 'key:1',
      action: 'a',
      target: 'late',
      user: 'u',
      address: '',
      request_id: '',
    })
    await audit.trim(30)
    const { records } = await audit.read({ guests: 'all' })
    expect(records.map(({ target, success }) => [target, success])).to.deep.equal([['late', true]])
    expect(await store.client.xLen(store.key('audit-outcome'))).to.equal(0)
  })

  it('keeps a caller in the list of callers if this caller adds an entry while callers are removed', async () => {
    const names = { callers: store.key('callers'), by: (ref: string) => store.key('by', ref) }
    const members = ['key:1', 'key:2'].map((ref) => JSON.stringify([ref, ref]))
    await store.client.sAdd(names.callers, members)
    let added = false
    /** Simulates a race: adds an audit entry of key:1 after `readShares` has counted the entries of key:1. */
    const racing = new Proxy(store, {
      get: (target, name) =>
        name !== 'transact'
          ? bound(target, name)
          : (step: string, commands: (client: StoreClient) => Promise<unknown>) =>
              target.transact(step, (client) => commands(withLateEntry(client))),
    })
    const withLateEntry = (client: StoreClient): StoreClient =>
      new Proxy(client, {
        get: (target, name) =>
          name !== 'zCard'
            ? bound(target, name)
            : async (key: string) => {
                const count = await target.zCard(key)
                if (!added) await store.client.zAdd(names.by('key:1'), { score: 1, value: 'late' })
                added = true
                return count
              },
      })
    await readShares(racing, 'count', names)
    expect(await store.client.sMembers(names.callers)).to.deep.equal([members[0]])
  })

  it('limits the audit log to the configured number of entries', async () => {
    const audit = new AuditStore(store, 100, silentLog)
    for (let n = 0; n < 130; n++) await audit.begin(start(`t${n}`))
    await waitFor(async () => (await targets(audit)).length === 100, { what: 'the oldest are gone' })
    expect((await targets(audit))[0]).to.equal('t129')
  })

  describe('for requests with an Idempotency-Key', () => {
    const request = (key: string, ref = 'key:1') => ({ caller: { ref, root: ref }, key, fingerprint: 'f' }) as never
    const answer = { status: 200, headers: {}, body: '{}' } as never
    const open = (keepHours?: number) =>
      new IdempotencyStore(store, new GatewayInstance(store), Buffer.alloc(32, 7), keepHours)

    async function answered(idempotency: IdempotencyStore, key: string, ref?: string): Promise<void> {
      const begun = await idempotency.begin(request(key, ref))
      if ('claim' in begun) await idempotency.finish(begun.claim, answer)
    }
    const kept = async (): Promise<string[]> => {
      const MATCH = store.key('idempotency', 'key:*')
      const found: string[] = []
      for await (const keys of store.client.scanIterator({ MATCH })) found.push(...keys)
      return found
    }

    it('keeps the newest requests, and all running requests', async () => {
      const idempotency = open()
      await idempotency.begin(request('runs'))
      for (let n = 0; n < 10; n++) {
        await answered(idempotency, `k${n}`)
        await waitFor(() => Date.now() > last, { intervalMs: 1 }) // so that no two requests have the same age
        last = Date.now()
      }
      await answered(idempotency, 'k0')
      await idempotency.trim(4)
      expect(await kept()).to.have.length(4 + 1)
      for (const key of ['k9', 'k8', 'k7', 'k6'])
        expect(await idempotency.begin(request(key)), key).to.have.property('replay')
      expect(await idempotency.begin(request('k0')), 'forgotten').to.have.property('claim')
      expect(await codeOf(idempotency.begin(request('runs')))).to.equal('task_running')
    })
    let last = 0

    it('keeps requests, and their entries in the list of each caller, for the configured number of hours', async () => {
      await answered(open(3), 'k')
      const [key = ''] = await kept()
      expect(await store.client.pTTL(key)).to.be.within(3 * 3_600_000 - 60_000, 3 * 3_600_000)
      await store.client.zAdd(store.key('idempotency-by', 'key:1'), {
        score: Date.now() - 4 * 3_600_000,
        value: 'gone',
      })
      await open(3).trim(1000)
      expect(await store.client.zRange(store.key('idempotency-by', 'key:1'), 0, -1)).to.deep.equal([key])
    })

    it('keeps the requests of one caller during a flood from another caller', async () => {
      const idempotency = open()
      await answered(idempotency, 'other', 'key:2')
      for (let n = 0; n < 10; n++) await answered(idempotency, `k${n}`)
      await idempotency.trim(4)
      expect(await kept()).to.have.length(4)
      expect(await idempotency.begin(request('other', 'key:2'))).to.have.property('replay')
    })

    it('deletes the list of requests that earlier versions of the gateway wrote', async () => {
      await store.client.zAdd(store.key('idempotency-ages'), { score: 1, value: 'old' })
      await open().trim(1000)
      expect(await store.client.exists(store.key('idempotency-ages'))).to.equal(0)
    })

    it('keeps all requests if their number does not exceed the limit', async () => {
      const idempotency = open()
      for (let n = 0; n < 5; n++) await answered(idempotency, `k${n}`)
      await idempotency.trim(5)
      expect(await kept()).to.have.length(5)
    })
  })

  it('is applied when a gateway starts', async () => {
    await addAged('old', 8)
    const own = new Store({ url: redis.url, prefix, log: silentLog })
    const retention = { ...defaultRetention, auditDays: 7, repeatHours: 1, repeats: 1000 }
    const options = { store: own, secret: Buffer.alloc(32), stateDir: redis.stateDir, auditKeep: 100 }
    const access = createAccess({ ...options, retention, limits: noLimits, log: silentLog })
    own.start()
    access.start()
    const left = async (): Promise<number> => {
      const [stream, index] = [store.key('audit'), store.key('audit-ids')]
      return (await store.client.xLen(stream)) + (await store.client.zCard(index))
    }
    await waitFor(async () => (await left()) === 0, { what: 'the old one to go' })
    await access.close()
    await own.close()
  })
})

function bound<T extends object>(target: T, name: string | symbol): unknown {
  const value: unknown = Reflect.get(target, name, target)
  return typeof value === 'function' ? (value.bind(target) as unknown) : value
}

async function codeOf(work: Promise<unknown>): Promise<string> {
  return work.then(
    () => 'ran',
    (error: { code: string }) => error.code,
  )
}
