import { expect } from 'chai'
import { BerthError } from '../../../shared/errors.js'
import { killUnder } from '../../support/gateway/redis.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'
import { administratorOf } from '../../support/gateway/administrator.js'

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

describe('the audit log over HTTP', () => {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway()
  })
  after(() => gateway.close())
  afterEach(() => waitFor(() => gateway.store.ready(), { what: 'the store is back' }))

  const read = async (query = '', key?: string): Promise<Row[]> => {
    const reply = await gateway.request('GET', `/audit-logs${query}`, key === undefined ? {} : { key })
    expect(reply.status, reply.text).to.equal(200)
    return reply.body.data as Row[]
  }

  /** Runs `work` while every call to an agent fails with `failure`. */
  const failingWith = async (failure: BerthError, work: () => Promise<unknown>): Promise<void> => {
    gateway.fleet.agentFailure = failure
    await work().finally(() => (gateway.fleet.agentFailure = undefined))
  }

  it('lists every change immediately, newest first, with caller, action, target and outcome', async () => {
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

  it('shows an unknown outcome instead of a failure if the answer of the agent was lost', async () => {
    const { name } = await gateway.fleet.addGuest()
    for (const [kind, code] of [
      ['timeout', 'agent_timeout'],
      ['unavailable', 'host_offline'],
    ] as const)
      await failingWith(new BerthError(kind, code, 'no answer'), () =>
        gateway.request('POST', `/containers/${name}/stop`),
      )
    const ended = (await read(`?target=${name}`)).map(({ success, detail }) => [success, detail])
    expect(ended).to.deep.equal([
      [false, 'host_offline'],
      [false, 'outcome unknown: agent_timeout'],
    ])
  })

  it('contains no read requests, and no requests that were rejected because of their key or body', async () => {
    const before = await read()
    await gateway.request('GET', '/api-keys')
    await gateway.request('POST', '/api-keys', { body: {} })
    await gateway.request('POST', '/api-keys', { body: { name: 'x' }, key: 'berth_sk_none' })
    expect(await read()).to.deep.equal(before)
  })

  it('can be filtered and read in pages', async () => {
    const key = await gateway.makeKey({ scopes: ['*'], name: 'pager' })
    const totalOf = async (query: string) =>
      Number((await gateway.request('GET', `/audit-logs${query}`)).headers['x-total-count'])
    const before = await totalOf('')
    for (let i = 0; i < 5; i++) await gateway.request('POST', '/api-keys', { key, body: { name: `key-${i}` } })
    await gateway.fleet.addGuest({ name: 'paged' })
    await failingWith(new BerthError('conflict', 'invalid_state', 'no'), () =>
      gateway.request('POST', '/containers/paged/stop', { key }),
    )
    const targets = async (query: string) => (await read(`${query}&user=api:pager`)).map((row) => row.target)
    expect(await targets('?action=apikey.create&page_size=2')).to.deep.equal(['key-4', 'key-3'])
    expect(await targets('?action=apikey.create&page_size=2&page=3')).to.deep.equal(['key-0'])
    expect(await targets('?page_size=2&page=2')).to.deep.equal(['key-3', 'key-2'])
    expect(await targets('?page=4&page_size=2')).to.deep.equal([])
    expect(await targets('?target=key-2')).to.deep.equal(['key-2'])
    expect(await targets('?success=false')).to.deep.equal(['paged'])
    expect(await read('?user=api:nobody')).to.deep.equal([])
    expect(await targets('?sort=time&page_size=2&action=apikey.create')).to.deep.equal(['key-0', 'key-1'])
    expect(await targets('?to=2020-01-01')).to.deep.equal([])
    expect(await targets('?from=2100-01-01')).to.deep.equal([])
    const now = new Date().toISOString()
    const today = now.slice(0, 10)
    expect(await targets(`?from=${today}&to=${today}`), 'the whole day').to.have.length(6)
    expect(await targets(`?from=2020-01-01&to=${now}`)).to.have.length(6)
    expect((await totalOf('?page_size=2')) - before).to.equal(6)
    expect(await totalOf('?user=api:pager&action=apikey.create&page_size=2')).to.equal(5)
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

  it('shows a key bound to containers only the entries about these containers', async () => {
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

  it('shows a key bound to containers the code of a failure, but not its message', async () => {
    const { uuid } = await gateway.fleet.addGuest({ name: 'failing' })
    const failure = new BerthError('conflict', 'invalid_state', 'blocked by other')
    await failingWith(failure, () => gateway.request('POST', '/containers/failing/stop'))
    const key = await gateway.makeKey({ scopes: ['audit:read'], container_uuids: [uuid] })
    const detail = async (as?: string) => (await read('?action=container.stop', as))[0]?.detail
    expect(await detail()).to.equal(`invalid_state: ${failure.message}`)
    expect(await detail(key)).to.equal('invalid_state')
  })

  it('truncates long targets and details', async () => {
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

  it('blocks all changes with 503 and Retry-After while it cannot be written', async () => {
    const guest = await gateway.fleet.addGuest({ name: 'safe' })
    process.kill(await gateway.redis.pid(), 'SIGSTOP')
    try {
      const { status, headers, body } = await gateway.request('POST', `/containers/${guest.name}/stop`)
      expect([status, body.code]).to.deep.equal([503, 'store_unavailable'])
      expect(Number(headers['retry-after'])).to.be.within(1, 60)
      expect((await gateway.request('GET', '/api-keys')).status).to.equal(503)
    } finally {
      process.kill(await gateway.redis.pid(), 'SIGCONT')
    }
    expect(gateway.fleet.operations().filter(({ operation }) => operation.subject?.name === 'safe')).to.deep.equal([])
  })

  it('contains the outcome and the container of a change even if the store fails during the change', async () => {
    const guest = await gateway.fleet.addGuest({ name: 'struck' })
    const { reached } = gateway.fleet
    gateway.fleet.reached = () => killUnder(gateway.store, gateway.redis)
    const stopped = gateway.request('POST', `/containers/${guest.name}/stop`)
    expect((await stopped.finally(() => (gateway.fleet.reached = reached))).status).to.equal(202)
    await waitFor(() => gateway.store.ready(), { what: 'the store is back' })
    const entry = await waitFor(async () => (await read('?success=true&target=struck')).at(0), {
      what: 'the outcome is written',
    })
    expect(entry).to.include({ action: 'container.stop' })
    const key = await gateway.makeKey({ scopes: ['audit:read'], container_uuids: [guest.uuid] })
    expect(await read('', key)).to.deep.equal([entry])
  })
})

describe('the audit entry of every audited route', () => {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway()
  })
  after(() => gateway.close())

  it('names the target of the change', async () => {
    await gateway.fleet.work('host-a')
    const { name } = await gateway.fleet.addGuest()
    const audited = gateway.api.routes.filter(({ audit, scope }) => typeof audit === 'string' && scope !== 'session')
    for (const { method, path, example } of audited) {
      const real = path.replace(/\{id\}/, path.startsWith('/containers') ? name : '9').replaceAll(/\{\w+\}/g, '9')
      await gateway.request(method, real, example === undefined ? {} : { body: example })
    }
    const { body } = await gateway.request('GET', '/audit-logs?page_size=1000')
    const rows = body.data as Row[]
    expect(new Set(rows.map(({ action }) => action)).size).to.be.greaterThan(30)
    expect(rows.filter(({ target }) => target === '')).to.deep.equal([])
    const targets = new Map(rows.map(({ action, target }) => [action, target]))
    expect(targets.get('access_policy.update')).to.equal('access-policy')
    expect(targets.get('language.update')).to.equal('language')
    expect(targets.get('webssh_origins.update')).to.equal('webssh-origins')
  })
})
