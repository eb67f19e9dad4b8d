import { expect } from 'chai'
import { AuditStore } from '../../gateway/access/audit.js'
import type { Store } from '../../gateway/store/store.js'
import { administratorOf } from '../support/gateway/administrator.js'
import { killUnder, silentLog, startTestRedis, type TestRedis } from '../support/gateway/redis.js'
import { codeOf } from '../support/gateway/test-fleet.js'
import { waitFor } from '../support/wait.js'

describe('the store of the audit log', () => {
  let redis: TestRedis
  let count = 0
  before(async () => {
    redis = await startTestRedis()
  })
  after(() => redis.stop())

  /** Opens a store without any keys, under a prefix of its own. */
  const openStore = () => redis.openStore(`btest${++count}:`)

  const caller = administratorOf(1)
  const start = (target: string) => ({ action: 'x.y', caller, address: '127.0.0.1', requestId: 'r', target })
  const all = { guests: 'all' } as const

  const detailsOf = async (audit: AuditStore, store: Store) =>
    store.ready() ? (await audit.read(all)).records.map(({ detail }) => detail) : ['']

  it('returns an entry as failed, with the detail “outcome unknown”, until its outcome is stored', async () => {
    const audit = new AuditStore(await openStore(), 100, silentLog)
    const [lost, ended] = [await audit.begin(start('lost')), await audit.begin(start('ended'))]
    await audit.finish(ended, { success: true, target: 'better name', detail: 'done' })
    const { records } = await audit.read(all)
    expect(records.map(({ target, success, detail }) => [target, success, detail])).to.deep.equal([
      ['better name', true, 'done'],
      ['lost', false, 'outcome unknown'],
    ])
    await audit.finish(lost, { success: true, target: '', detail: 'late' })
    expect((await audit.read(all)).records[1]).to.include({ target: 'lost', success: true, detail: 'late' })
  })

  it('counts entries beyond the returned page only if the request asks for the total', async () => {
    const audit = new AuditStore(await openStore(), 100, silentLog)
    for (let i = 0; i < 9; i++) await audit.begin(start(`${i}`))
    const read = async (size: number, bounds: object) => {
      const { records, total } = await audit.read({ action: 'x.y', ...all, ...bounds }, { page: 1, size })
      return [records.map(({ target }) => target).join(''), total]
    }
    expect(await read(3, {})).to.deep.equal(['876', 9])
    expect(await read(20, { counted: false })).to.deep.equal(['876543210', 9])
  })

  it('stores outcomes later, and in their order, if they could not be stored at first', async () => {
    const store = await openStore()
    const audit = new AuditStore(store, 100, silentLog)
    const entries = await Promise.all(['a', 'b', 'c'].map((target) => audit.begin(start(target))))
    await killUnder(store, redis)
    for (const [i, entry] of entries.entries()) {
      const ended = audit.finish(entry, { success: true, target: '', detail: `ended ${i}` })
      expect(await codeOf(ended)).to.equal('store_unavailable')
    }
    await waitFor(async () => (await detailsOf(audit, store)).every((detail) => /^ended/.test(detail)))
    expect(await detailsOf(audit, store)).to.deep.equal(['ended 2', 'ended 1', 'ended 0'])
  })

  it('keeps the configured number of entries, each with its own outcome', async function () {
    const audit = new AuditStore(await openStore(), 3000, silentLog)
    for (let round = 0; round < 5; round++) {
      const entries = await Promise.all(
        Array.from({ length: 1000 }, (_, i) => audit.begin(start(`${round * 1000 + i}`))),
      )
      await Promise.all(
        entries.toReversed().map((entry) => audit.finish(entry, { success: true, target: '', detail: entry.id })),
      )
    }
    await waitFor(async () => (await audit.read(all)).total <= 3000, { what: 'the oldest are gone' })
    const { records, total } = await audit.read(all)
    // Old entries are removed in batches. Therefore slightly fewer than 3,000 entries may remain.
    expect(total).to.be.within(2990, 3000)
    expect(records.map((record) => Number(record.target))).to.deep.equal(
      Array.from({ length: total }, (_, i) => 4999 - i),
    )
    expect(records.every((record) => record.success && Number(record.detail.split('-')[0]) === record.timeMs)).to.equal(
      true,
    )
    const deep = await audit.read({ ...all, action: 'x.y' }, { page: 29, size: 100 })
    expect(deep.records.map((record) => Number(record.target))).to.deep.equal(
      Array.from({ length: 100 }, (_, i) => 2199 - i),
    )
    expect(deep.total).to.equal(total)
  })

  describe('during a flood from one caller', () => {
    const of = (by: string, root = by) => ({ ref: by, root, user: `user of ${by}` })
    const write = async (
      audit: AuditStore,
      { by, target, success = true }: { by: ReturnType<typeof of>; target: string; success?: boolean },
    ) => {
      const entry = await audit.begin({ ...start(target), caller: by })
      const detail = success ? 'done' : 'not_found: container not found'
      await audit.finish(entry, { success, target, detail, containerUuid: 'guest' })
    }
    const flood = (audit: AuditStore, count: number, one: (n: number) => Parameters<typeof write>[1]) =>
      Promise.all(Array.from({ length: count }, (_, n) => write(audit, one(n))))
    const targetsOf = async (audit: AuditStore, by: string) =>
      (await audit.read({ by, ...all })).records.map(({ target }) => target)
    const total = async (audit: AuditStore) => (await audit.read(all)).total

    it('keeps the entries of other callers', async () => {
      const audit = new AuditStore(await openStore(), 100, silentLog)
      for (let n = 0; n < 20; n++) await write(audit, { by: of('subuser:1'), target: `t${n}` })
      await flood(audit, 500, (n) => ({ by: of('subuser:2'), target: `x${n}` }))
      await waitFor(async () => (await total(audit)) <= 100, { what: 'the flood is cut' })
      expect(await targetsOf(audit, 'subuser:1')).to.have.length(20)
      const guests = new Set(['guest'])
      const { records } = await audit.read({ guests })
      expect(records.filter(({ by }) => by === 'subuser:1')).to.have.length(20)
      expect((await audit.read({ guests: new Set(['other']) })).records).to.deep.equal([])
    })

    it('keeps the entries of other callers even if many keys of one creator cause the flood', async () => {
      const audit = new AuditStore(await openStore(), 100, silentLog)
      for (let n = 0; n < 40; n++) await write(audit, { by: of('key:1'), target: `t${n}` })
      await flood(audit, 500, (n) => ({ by: of(`key:${10 + (n % 50)}`, 'key:2'), target: `x${n}` }))
      await waitFor(async () => (await total(audit)) <= 100, { what: 'the flood is cut' })
      expect(await targetsOf(audit, 'key:1')).to.have.length(40)
    })

    it('combines similar failures into one entry that contains their number', async () => {
      const audit = new AuditStore(await openStore(), 100, silentLog)
      await flood(audit, 50, () => ({ by: of('subuser:1'), target: 'web', success: false }))
      await write(audit, { by: of('subuser:2'), target: 'web', success: false })
      const { records } = await audit.read({ by: 'subuser:1', ...all })
      expect(records.map(({ count, target }) => [count, target])).to.deep.equal([[50, 'web']])
      expect(records[0]!.lastMs).to.be.at.least(records[0]!.timeMs)
      expect(await total(audit)).to.equal(2)
    })

    it('keeps the caller’s successful change among its failed requests', async () => {
      const store = await openStore()
      const audit = new AuditStore(store, 5000, silentLog)
      await write(audit, { by: of('subuser:1'), target: 'the change' })
      await flood(audit, 1000, (n) => ({ by: of('subuser:1'), target: `guess ${n}`, success: false }))
      const { records } = await audit.read({ by: 'subuser:1', ...all })
      expect(records.length).to.be.at.most(110)
      expect(records.reduce((sum, { count }) => sum + count, 0)).to.equal(1001)
      expect(records.map(({ target }) => target)).to.include('the change')
      const names = []
      for await (const keys of store.client.scanIterator({ MATCH: store.key('audit-recent', '*') })) names.push(...keys)
      expect(names.length, 'names of failures').to.be.at.most(110)
    })
  })
})
