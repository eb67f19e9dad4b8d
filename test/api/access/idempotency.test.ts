import { expect } from 'chai'
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createAccess, noLimits } from '../../../gateway/callers.js'
import { createAdminKey, importAdminKey } from '../../../gateway/access/bootstrap.js'
import { IdempotencyStore } from '../../../gateway/access/idempotency.js'
import type { IdempotentRequest } from '../../../gateway/access/contract.js'
import { GatewayInstance } from '../../../gateway/store/instance.js'
import { BerthError } from '../../../shared/errors.js'
import { moduleUrl, nodeOptions } from '../../support/programs.js'
import { silentLog, startTestRedis, type TestRedis } from '../../support/gateway/redis.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'
import { administratorOf } from '../../support/gateway/administrator.js'

const secret = Buffer.alloc(32, 7)
const request = (key: string, fingerprint = 'f', keyId = 1): IdempotentRequest => ({
  caller: administratorOf(keyId),
  key,
  fingerprint,
})
const answer = { status: 201, headers: { 'Content-Type': 'application/json' }, body: '{"password":"geheim"}' }

describe('an Idempotency-Key over HTTP', () => {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway()
  })
  after(() => gateway.close())

  const post = (key: string, body: object, apiKey?: string) =>
    gateway.request('POST', '/api-keys', {
      body,
      headers: { 'idempotency-key': key },
      ...(apiKey === undefined ? {} : { key: apiKey }),
    })

  it('makes a repeated request get the first answer, including the secret of a new API key', async () => {
    const [first, second] = [await post('a-1', { name: 'once' }), await post('a-1', { name: 'once' })]
    expect([second.status, second.text]).to.deep.equal([201, first.text])
    const { body } = await gateway.request('GET', '/api-keys?name=once')
    expect(body.data).to.have.length(1)
  })

  it('belongs to one caller, and is rejected if this caller sends it again with a different body', async () => {
    await post('a-2', { name: 'two' })
    const other = await post('a-2', { name: 'three' })
    expect([other.status, other.body.code]).to.deep.equal([422, 'idempotency_conflict'])
    const key = await gateway.makeKey({ scopes: ['apikey:create'] })
    expect((await post('a-2', { name: 'three', scopes: ['apikey:create'] }, key)).status).to.equal(201)
  })

  it('lets only one of fifty concurrent requests run', async () => {
    const guest = await gateway.fleet.addGuest({ name: 'fifty' })
    const replies = await Promise.all(
      Array.from({ length: 50 }, () =>
        gateway.request('POST', `/containers/${guest.name}/stop`, { headers: { 'idempotency-key': 'a-3' } }),
      ),
    )
    const statuses = replies.map((reply) => reply.status)
    expect(statuses.filter((status) => status === 202).length).to.be.greaterThan(0)
    expect(statuses.every((status) => status === 202 || status === 409)).to.equal(true)
    const operations = gateway.fleet.view.operations().filter(({ operation }) => operation.subject?.name === 'fifty')
    expect(operations).to.have.length(1)
  })

  it('does not store the answers 404 and 409, so that a corrected request can run', async () => {
    const missing = () =>
      gateway.request('POST', '/containers/none-such/stop', { headers: { 'idempotency-key': 'a-4' } })
    const first = await missing()
    expect(first.status).to.equal(404)
    await gateway.fleet.addGuest({ name: 'none-such' })
    expect((await missing()).status).to.equal(202)
    const one = await gateway.fleet.addGuest({ name: 'one', portMappings: [] })
    const other = await gateway.fleet.addGuest({ name: 'other', portMappings: [] })
    const map = (id = 0, headers = {}) =>
      gateway.request('POST', `/containers/${id}/port-mappings`, {
        headers,
        body: { container_port: 80, host_port: 26_500 },
      })
    await map(one?.id)
    const again = { 'idempotency-key': 'a-409' }
    expect((await map(other?.id, again)).body.code).to.equal('port_conflict')
    await gateway.request('DELETE', `/containers/${one?.id}/port-mappings/0`)
    expect((await map(other?.id, again)).status).to.equal(200)
  })

  it('does not store the answer 412, so that a request with a newer If-Match can run', async () => {
    const { id, revision } = await gateway.fleet.addGuest()
    const reset = async (tag: number) => {
      const headers = { 'idempotency-key': 'a-6', 'if-match': `"${tag}.x"` }
      return gateway.request('POST', `/containers/${id}/traffic-reset`, { headers })
    }
    expect((await reset(revision + 1)).status).to.equal(412)
    const done = await reset(revision)
    expect([done.status, done.headers['idempotency-replayed']]).to.deep.equal([200, undefined])
    expect((await reset(revision)).headers['idempotency-replayed']).to.equal('true')
  })

  it('is refused if it is malformed', async () => {
    for (const key of ['x'.repeat(256), 'a b', 'ä'])
      expect((await post(key, { name: 'x' })).status, key.slice(0, 10)).to.equal(400)
  })

  it('leaves no API key in plain text in the store', async () => {
    const made = await post('a-5', { name: 'secret holder' })
    const aof = await gateway.redis.readAof()
    expect(aof).to.contain('secret holder')
    for (const key of [made.body.data.key as string, gateway.adminKey]) {
      expect(aof).not.to.contain(key)
      expect(aof).not.to.contain(key.slice(15))
    }
  })

  const create = (name: string, key: string) =>
    gateway.request('POST', '/containers', {
      body: { name, template_id: 'debian-12' },
      headers: { 'idempotency-key': key },
    })

  it('makes a repeated creation of a guest get the first answer, and rejects a different creation', async () => {
    const first = await create('idem-1', 'order-4711')
    const again = await create('idem-1', 'order-4711')
    expect([again.status, again.text]).to.deep.equal([202, first.text])
    expect(again.headers['idempotency-replayed']).to.equal('true')
    const other = await create('idem-2', 'order-4711')
    expect([other.status, other.body.code]).to.deep.equal([422, 'idempotency_conflict'])
    expect((await gateway.request('GET', '/containers/idem-2')).status).to.equal(404)
  })

  it('lets many concurrent requests create only one guest', async () => {
    const replies = await Promise.all(Array.from({ length: 20 }, () => create('idem-many', 'order-4712')))
    const ids = replies.filter((r) => r.status === 202).map((r) => (r.body as { data: { id: number } }).data.id)
    expect(new Set(ids).size).to.equal(1)
    for (const reply of replies) expect([202, 409]).to.include(reply.status)
  })

  it('lets a repeated request run if the first request failed temporarily', async () => {
    gateway.fleet.agentFailure = new BerthError('timeout', 'agent_timeout', 'no answer')
    expect((await create('idem-3', 'order-4713')).status).to.equal(504)
    gateway.fleet.agentFailure = undefined
    expect((await create('idem-3', 'order-4713')).status).to.equal(202)
  })

  it('is ignored by POST /containers/list, which always shows the present state', async () => {
    const headers = { 'idempotency-key': 'listing' }
    const ask = (body: unknown) => gateway.request('POST', '/containers/list', { headers, body })
    expect((await ask({})).status).to.equal(200)
    await gateway.fleet.addGuest({ name: 'after-the-list' })
    const again = await ask({})
    expect(again.text).to.include('after-the-list')
    expect(again.headers['idempotency-replayed']).to.equal(undefined)
    expect((await ask({ other: 1 })).status).to.equal(200)
    const { text } = await gateway.request('GET', '/audit-logs')
    expect(text).not.to.contain('list')
  })

  it('is named as the invalid field if it is malformed', async () => {
    for (const key of ['x'.repeat(256), 'has blank'])
      expect((await create('idem-4', key)).body.details.field).to.equal('Idempotency-Key')
  })
})

describe('the store of idempotent requests', () => {
  let redis: TestRedis
  let prefix: string
  let count = 0
  before(async () => {
    redis = await startTestRedis()
  })
  after(() => redis.stop())
  beforeEach(() => (prefix = `btest${++count}:`))

  const open = async () => {
    const store = await redis.openStore(prefix)
    return { store, idempotency: new IdempotencyStore(store, new GatewayInstance(store), secret) }
  }
  const claimOf = async (idempotency: IdempotencyStore, key: string) => {
    const begun = await idempotency.begin(request(key))
    if (!('claim' in begun)) throw new Error('replayed')
    return begun.claim
  }
  const codeOf = (promise: Promise<unknown>) =>
    promise.then(
      () => 'ran',
      (error: { code: string }) => error.code,
    )

  it('refuses further requests with the same key, in any process, while the first request runs', async () => {
    const [one, two] = [await open(), await open()]
    const claim = await claimOf(one.idempotency, 'k')
    expect(await codeOf(one.idempotency.begin(request('k')))).to.equal('task_running')
    expect(await codeOf(two.idempotency.begin(request('k', 'other')))).to.equal('idempotency_conflict')
    await one.idempotency.finish(claim, answer)
    expect(await two.idempotency.begin(request('k'))).to.deep.equal({
      replay: answer,
      operationId: claim.operationId,
    })
    expect(await redis.readAof()).not.to.contain('geheim')
  })

  it('lets only one of several repetitions run, with the first operation id, if the first request has no outcome', async () => {
    const [one, two] = [await open(), await open()]
    for (let round = 0; round < 5; round++) {
      const claim = await claimOf(one.idempotency, `k${round}`)
      await one.idempotency.release(claim)
      const results = await Promise.allSettled(
        [one, two, one, two].map(({ idempotency }) => claimOf(idempotency, `k${round}`)),
      )
      const claims = results.filter((result) => result.status === 'fulfilled').map((result) => result.value)
      expect(claims).to.deep.equal([claim])
    }
  })

  it('lets a request run again if its outcome could not be written', async () => {
    const { store, idempotency } = await open()
    const claim = await claimOf(idempotency, 'k')
    process.kill(await redis.pid(), 'SIGKILL')
    await waitFor(() => !store.ready())
    expect(await codeOf(idempotency.finish(claim, answer))).to.equal('store_unavailable')
    await waitFor(() => store.ready())
    expect(await claimOf(idempotency, 'k')).to.deep.equal(claim)
  })

  it('lets another gateway run a repetition if the outcome of the first request was not stored', async () => {
    const [one, two] = [await open(), await open()]
    const claim = await claimOf(one.idempotency, 'k')
    const run = one.store.run.bind(one.store)
    one.store.run = () => {
      one.store.run = run
      return Promise.reject(new BerthError('unavailable', 'store_unavailable', 'the store is down'))
    }
    expect(await codeOf(one.idempotency.finish(claim, answer))).to.equal('store_unavailable')
    await waitFor(async () => (await codeOf(two.idempotency.begin(request('k', 'f')))) === 'ran')
  })

  it('lets another gateway run a repetition if the store did not confirm the record of the first request', async () => {
    const [one, two] = [await open(), await open()]
    const run = one.store.run.bind(one.store)
    one.store.run = async (...commands) => {
      one.store.run = run
      await run(...commands)
      throw new BerthError('unavailable', 'store_unavailable', 'no replica has confirmed the change')
    }
    expect(await codeOf(one.idempotency.begin(request('k')))).to.equal('store_unavailable')
    await waitFor(async () => (await codeOf(two.idempotency.begin(request('k')))) === 'ran')
  })

  it('leads to one API key if several gateways run the same request at the same time', async () => {
    await createAdminKey(redis.stateDir, join(redis.stateDir, 'admin.key'))
    const options = { secret, stateDir: redis.stateDir, auditKeep: 100, limits: noLimits, log: silentLog }
    const stores = await Promise.all([1, 2, 3].map(() => redis.openStore(prefix)))
    await importAdminKey(stores[0]!, redis.stateDir)
    const gateways = stores.map((store) => createAccess({ ...options, store }))
    for (let round = 0; round < 10; round++) {
      const operationId = randomUUID()
      const attempts = gateways.map(({ keys }) => keys.create(1, { name: `of ${round}` }, operationId))
      const [first, ...others] = await Promise.all(attempts)
      expect(others).to.deep.equal([first, first])
    }
    expect(await gateways[0]!.keys.list(1)).to.have.length(1 + 10)
  })

  it('lets a request run again with the same operation id if its process was killed', async () => {
    const program = join(redis.stateDir, 'victim.mjs')
    const from = (path: string) => JSON.stringify(moduleUrl(`gateway/${path}`))
    await writeFile(
      program,
      `import { IdempotencyStore } from ${from('access/idempotency.ts')}
       import { GatewayInstance } from ${from('store/instance.ts')}
       import { Store } from ${from('store/store.ts')}
       const log = { info() {}, debug() {}, warn() {}, error() {} }
       const store = new Store({ url: ${JSON.stringify(redis.url)}, prefix: ${JSON.stringify(prefix)}, log })
       store.on('up', () => void begin())
       store.start()
       async function begin() {
         const instance = new GatewayInstance(store)
         instance.start()
         const idempotency = new IdempotencyStore(store, instance, Buffer.alloc(32, 7))
         const begun = await idempotency.begin({ caller: { ref: 'key:1' }, key: 'k', fingerprint: 'f' })
         process.stdout.write('claim' in begun ? begun.claim.operationId : 'replay')
       }`,
    )
    const victim = spawn(process.execPath, [...nodeOptions, program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const [operationId] = (await once(victim.stdout, 'data')) as [Buffer]
    const { idempotency } = await open()
    expect(await codeOf(idempotency.begin(request('k')))).to.equal('task_running')
    victim.kill('SIGKILL')
    await once(victim, 'exit')
    expect((await claimOf(idempotency, 'k')).operationId).to.equal(operationId.toString())
  })
})
