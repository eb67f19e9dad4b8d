import { expect } from 'chai'
import { AuditStore } from '../../gateway/access/audit.js'
import type { Store } from '../../gateway/store/store.js'
import { BerthError } from '../../shared/errors.js'
import { killUnder, silentLog, startTestRedis, type TestRedis } from '../support/redis.js'
import { codeOf } from '../support/test-fleet.js'
import { startTestGateway, type TestGateway } from '../support/test-gateway.js'
import { waitFor } from '../support/wait.js'
import { administratorOf } from '../support/administrator.js'
import { expectInTime, quickest } from '../support/promised-time.js'

interface Row {
  time: string
  action: string
  target: string
  detail: string
  user: string
  success: boolean
  address: string
  request_id: string
}

describe('audit log over HTTP', () => {
  let gateway: TestGateway
  beforeEach(async () => {
    gateway = await startTestGateway()
  })
  afterEach(() => gateway.close())

  const read = async (query = '', key?: string): Promise<Row[]> => {
    const reply = await gateway.request('GET', `/audit-logs${query}`, key === undefined ? {} : { key })
    expect(reply.status, reply.text).to.equal(200)
    return reply.body.data as Row[]
  }

  it('holds every change before it is answered, newest first, with who, what and how it ended', async () => {
    const made = await gateway.request('POST', '/api-keys', {
      body: { name: 'billing', scopes: ['swap:read'] },
    })
    const id = made.body.data.id as number
    await gateway.request('PATCH', `/api-keys/${id}`, { body: { disabled: true } })
    await gateway.request('DELETE', `/api-keys/${id}`)
    const refused = await gateway.request('DELETE', '/api-keys/1')
    const [last, removed, updated, created] = await read()
    expect(last).to.include({
      action: 'apikey.delete',
      success: false,
      target: '1',
      request_id: refused.headers['x-request-id'],
    })
    expect(last?.detail).to.contain('invalid_state')
    expect(removed).to.include({ action: 'apikey.delete', target: 'billing', success: true })
    expect(updated).to.include({
      action: 'apikey.update',
      target: 'billing',
      detail: `id ${id}, set disabled`,
    })
    const { time, ...entry } = created!
    expect(time).to.match(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/)
    expect(entry).to.deep.equal({
      action: 'apikey.create',
      target: 'billing',
      detail: `id ${id}, scopes swap:read`,
      user: 'api:admin',
      key_id: 1,
      by: 'key:1',
      success: true,
      address: '127.0.0.1',
      request_id: made.headers['x-request-id'],
    })
    expect(JSON.stringify(await read())).not.to.contain(made.body.data.key)
  })

  it('does not say that a change failed that may be done: one whose answer did not come', async () => {
    const { name } = await gateway.fleet.addGuest()
    for (const [kind, code] of [
      ['timeout', 'agent_timeout'],
      ['unavailable', 'host_offline'],
    ] as const) {
      gateway.fleet.agentFailure = new BerthError(kind, code, 'no answer')
      await gateway.request('POST', `/containers/${name}/stop`)
    }
    const ended = (await read(`?target=${name}`)).map(({ success, detail }) => [success, detail])
    expect(ended).to.deep.equal([
      [false, 'host_offline'],
      [false, 'outcome unknown: agent_timeout'],
    ])
  })

  it('holds nothing of reads and of what was refused before it was begun', async () => {
    await gateway.request('GET', '/api-keys')
    await gateway.request('POST', '/api-keys', { body: {} })
    await gateway.request('POST', '/api-keys', { body: { name: 'x' }, key: 'berth_sk_none' })
    expect(await read()).to.deep.equal([])
  })

  it('names a target for every change', async () => {
    await gateway.fleet.work('host-a')
    const { name } = await gateway.fleet.addGuest()
    const audited = gateway.api.routes.filter(
      ({ audit, scope }) => typeof audit === 'string' && scope !== 'session',
    )
    for (const { method, path, example } of audited) {
      const real = path
        .replace(/\{id\}/, path.startsWith('/containers') ? name : '9')
        .replaceAll(/\{\w+\}/g, '9')
      await gateway.request(method, real, example === undefined ? {} : { body: example })
    }
    const rows = await read('?page_size=1000')
    expect(new Set(rows.map(({ action }) => action)).size).to.be.greaterThan(30)
    expect(rows.filter(({ target }) => target === '')).to.deep.equal([])
    const targets = new Map(rows.map(({ action, target }) => [action, target]))
    expect(targets.get('access_policy.update')).to.equal('access-policy')
    expect(targets.get('language.update')).to.equal('language')
    expect(targets.get('webssh_origins.update')).to.equal('webssh-origins')
  })

  it('filters and pages', async () => {
    for (let i = 0; i < 5; i++) await gateway.request('POST', '/api-keys', { body: { name: `key-${i}` } })
    await gateway.request('DELETE', '/api-keys/1')
    const targets = async (query: string) => (await read(query)).map((row) => row.target)
    expect(await targets('?action=apikey.create&page_size=2')).to.deep.equal(['key-4', 'key-3'])
    expect(await targets('?action=apikey.create&page_size=2&page=3')).to.deep.equal(['key-0'])
    expect(await targets('?page_size=2&page=2')).to.deep.equal(['key-3', 'key-2'])
    expect(await targets('?page=4&page_size=2')).to.deep.equal([])
    expect(await targets('?target=key-2')).to.deep.equal(['key-2'])
    expect(await targets('?success=false')).to.deep.equal(['1'])
    expect(await targets('?user=api:nobody')).to.deep.equal([])
    expect(await targets('?sort=time&page_size=2&action=apikey.create')).to.deep.equal(['key-0', 'key-1'])
    expect(await targets('?to=2020-01-01')).to.deep.equal([])
    expect(await targets('?from=2100-01-01')).to.deep.equal([])
    const now = new Date().toISOString()
    const today = now.slice(0, 10)
    expect(await targets(`?from=${today}&to=${today}`), 'the whole day').to.have.length(6)
    expect(await targets(`?from=2020-01-01&to=${now}`)).to.have.length(6)
    for (const [query, total] of [
      ['?page_size=2', '6'],
      ['?action=apikey.create&page_size=2', '5'],
    ] as const)
      expect((await gateway.request('GET', `/audit-logs${query}`)).headers['x-total-count']).to.equal(total)
    for (const bad of [
      '?from=yesterday',
      '?page=0',
      '?page_size=100000',
      '?page=1e0',
      '?success=maybe',
      '?sort=user',
      '?page=1&page=2',
    ])
      expect((await gateway.request('GET', `/audit-logs${bad}`)).body.code, bad).to.equal('invalid_field')
  })

  it('shows a key that is bound to containers only what was about them', async () => {
    const [mine, other] = [
      await gateway.fleet.addGuest({ name: 'mine' }),
      await gateway.fleet.addGuest({ name: 'other' }),
    ]
    for (const { name } of [mine, other]) await gateway.request('POST', `/containers/${name}/stop`)
    await gateway.request('POST', '/api-keys', { body: { name: 'x' } })
    const key = await gateway.makeKey({ scopes: ['audit:read'], container_uuids: [mine.uuid] })
    expect((await read('', key)).map((row) => row.target)).to.deep.equal(['mine'])
    const reply = await gateway.request('GET', '/audit-logs?page_size=1', { key })
    expect(reply.headers['x-total-count']).to.equal('1')
  })

  it('shows a key that is bound to containers of a failure the code alone', async () => {
    const mine = await gateway.fleet.addGuest({ name: 'mine' })
    const told = new BerthError('conflict', 'invalid_state', 'other is in the way')
    gateway.fleet.agentFailure = told
    await gateway.request('POST', '/containers/mine/stop')
    const key = await gateway.makeKey({ scopes: ['audit:read'], container_uuids: [mine.uuid] })
    const detail = async (as?: string) => (await read('?action=container.stop', as))[0]?.detail
    expect(await detail()).to.equal(`invalid_state: ${told.message}`)
    expect(await detail(key)).to.equal('invalid_state')
  })

  it('cuts what is too long', async () => {
    const { audit } = gateway.access
    const from = administratorOf(1)
    const start = { action: 'test.long', address: '127.0.0.1', requestId: 'r', target: 't'.repeat(5000) }
    await audit.begin({ ...start, caller: from })
    const entry = await audit.begin({ ...start, caller: from })
    await audit.finish(entry, { success: true, target: 'u'.repeat(5000), detail: 'd'.repeat(50_000) })
    const { records } = await audit.read({ action: 'test.long', guests: 'all' })
    expect(records.map(({ target, detail }) => [target.length, detail.length])).to.deep.equal([
      [200, 1000],
      [200, 'outcome unknown'.length],
    ])
  })

  it('refuses to act when it cannot be written, with 503 and Retry-After', async () => {
    const guest = await gateway.fleet.addGuest({ name: 'safe' })
    process.kill(await gateway.redis.pid(), 'SIGSTOP')
    try {
      const begun = performance.now()
      const { status, headers, body } = await gateway.request('POST', `/containers/${guest.name}/stop`)
      expect([status, body.code]).to.deep.equal([503, 'store_unavailable'])
      expect(Number(headers['retry-after'])).to.be.within(1, 60)
      expectInTime(begun, 2500, 'the refusal')
      const again = async (): Promise<void> =>
        void expect((await gateway.request('GET', '/api-keys')).status).to.equal(503)
      expect(await quickest(3, again), 'ms').to.be.lessThan(1000)
    } finally {
      process.kill(await gateway.redis.pid(), 'SIGCONT')
    }
    expect(gateway.fleet.view.operations()).to.deep.equal([])
  })

  it('holds how it ended, and of which container, even when the store died in between', async () => {
    const guest = await gateway.fleet.addGuest({ name: 'struck' })
    gateway.fleet.reached = () => killUnder(gateway.store, gateway.redis)
    expect((await gateway.request('POST', `/containers/${guest.name}/stop`)).status).to.equal(202)
    await waitFor(() => gateway.store.ready(), { what: 'the store is back' })
    const entry = await waitFor(async () => (await read('?success=true')).at(0), {
      what: 'the outcome is written',
    })
    expect(entry).to.include({ action: 'container.stop', target: 'struck' })
    const key = await gateway.makeKey({ scopes: ['audit:read'], container_uuids: [guest.uuid] })
    expect(await read('', key)).to.deep.equal([entry])
  })
})

describe('audit store', () => {
  let redis: TestRedis
  beforeEach(async () => {
    redis = await startTestRedis()
  })
  afterEach(() => redis.stop())

  const caller = administratorOf(1)
  const start = (target: string) => ({ action: 'x.y', caller, address: '127.0.0.1', requestId: 'r', target })
  const all = { guests: 'all' } as const

  const detailsOf = async (audit: AuditStore, store: Store) =>
    store.ready() ? (await audit.read(all)).records.map(({ detail }) => detail) : ['']

  it('says of an entry without outcome that it is unknown', async () => {
    const audit = new AuditStore(await redis.openStore(), 100, silentLog)
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

  it('counts only as many entries as necessary', async () => {
    const audit = new AuditStore(await redis.openStore(), 100, silentLog)
    for (let i = 0; i < 9; i++) await audit.begin(start(`${i}`))
    const read = async (size: number, bounds: object) => {
      const { records, total } = await audit.read({ action: 'x.y', ...all, ...bounds }, { page: 1, size })
      return [records.map(({ target }) => target).join(''), total]
    }
    expect(await read(3, {})).to.deep.equal(['876', 9])
    expect(await read(20, { counted: false })).to.deep.equal(['876543210', 9])
  })

  it('writes outcomes later that it could not write, in order', async () => {
    const store = await redis.openStore()
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

  it('keeps as many as configured, and finds each outcome in a log of many pages', async function () {
    this.timeout(120_000)
    const audit = new AuditStore(await redis.openStore(), 3000, silentLog)
    for (let round = 0; round < 5; round++) {
      const entries = await Promise.all(
        Array.from({ length: 1000 }, (_, i) => audit.begin(start(`${round * 1000 + i}`))),
      )
      await Promise.all(
        entries
          .toReversed()
          .map((entry) => audit.finish(entry, { success: true, target: '', detail: entry.id })),
      )
    }
    await waitFor(async () => (await audit.read(all)).total <= 3000, { what: 'the oldest are gone' })
    const { records, total } = await audit.read(all)
    // Some more are given up at a time.
    expect(total).to.be.within(2990, 3000)
    expect(records.map((record) => Number(record.target))).to.deep.equal(
      Array.from({ length: total }, (_, i) => 4999 - i),
    )
    expect(
      records.every((record) => record.success && Number(record.detail.split('-')[0]) === record.timeMs),
    ).to.equal(true)
    const deep = await audit.read({ ...all, action: 'x.y' }, { page: 29, size: 100 })
    expect(deep.records.map((record) => Number(record.target))).to.deep.equal(
      Array.from({ length: 100 }, (_, i) => 2199 - i),
    )
    expect(deep.total).to.equal(total)
  })

  describe('that one caller floods', () => {
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

    it('keeps the entries of others', async () => {
      const audit = new AuditStore(await redis.openStore(), 100, silentLog)
      for (let n = 0; n < 20; n++) await write(audit, { by: of('subuser:1'), target: `t${n}` })
      await flood(audit, 500, (n) => ({ by: of('subuser:2'), target: `x${n}` }))
      await waitFor(async () => (await total(audit)) <= 100, { what: 'the flood is cut' })
      expect(await targetsOf(audit, 'subuser:1')).to.have.length(20)
      const guests = new Set(['guest'])
      const { records } = await audit.read({ guests })
      expect(records.filter(({ by }) => by === 'subuser:1')).to.have.length(20)
      expect((await audit.read({ guests: new Set(['other']) })).records).to.deep.equal([])
    })

    it('keeps them even if many keys of one key flood the log', async () => {
      const audit = new AuditStore(await redis.openStore(), 100, silentLog)
      for (let n = 0; n < 40; n++) await write(audit, { by: of('key:1'), target: `t${n}` })
      await flood(audit, 500, (n) => ({ by: of(`key:${10 + (n % 50)}`, 'key:2'), target: `x${n}` }))
      await waitFor(async () => (await total(audit)) <= 100, { what: 'the flood is cut' })
      expect(await targetsOf(audit, 'key:1')).to.have.length(40)
    })

    it('counts similar failures in one entry', async () => {
      const audit = new AuditStore(await redis.openStore(), 100, silentLog)
      await flood(audit, 50, () => ({ by: of('subuser:1'), target: 'web', success: false }))
      await write(audit, { by: of('subuser:2'), target: 'web', success: false })
      const { records } = await audit.read({ by: 'subuser:1', ...all })
      expect(records.map(({ count, target }) => [count, target])).to.deep.equal([[50, 'web']])
      expect(records[0]!.lastMs).to.be.at.least(records[0]!.timeMs)
      expect(await total(audit)).to.equal(2)
    })

    it('keeps a caller’s changes despite a flood of its own failures', async () => {
      const store = await redis.openStore()
      const audit = new AuditStore(store, 5000, silentLog)
      await write(audit, { by: of('subuser:1'), target: 'the change' })
      await flood(audit, 1000, (n) => ({ by: of('subuser:1'), target: `guess ${n}`, success: false }))
      const { records } = await audit.read({ by: 'subuser:1', ...all })
      expect(records.length).to.be.at.most(110)
      expect(records.reduce((sum, { count }) => sum + count, 0)).to.equal(1001)
      expect(records.map(({ target }) => target)).to.include('the change')
      const names = []
      for await (const keys of store.client.scanIterator({ MATCH: store.key('audit-recent', '*') }))
        names.push(...keys)
      expect(names.length, 'names of failures').to.be.at.most(110)
    })
  })
})
