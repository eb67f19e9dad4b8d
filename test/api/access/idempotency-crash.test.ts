import { expect } from 'chai'
import { storeUnavailable } from '../../../gateway/store/connection.js'
import { killUnder } from '../../support/gateway/redis.js'
import { startTestFleet, type TestFleet } from '../../support/gateway/test-fleet.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

describe('a request with an Idempotency-Key if the store fails', function () {
  let gateway: TestGateway
  beforeEach(async () => {
    gateway = await startTestGateway()
  })
  afterEach(() => gateway.close())

  const send = async (path: string, body: object, key = 'order') => {
    await waitFor(() => gateway.store.ready(), { what: 'the store is back' })
    return gateway.request('POST', path, { body, headers: { 'idempotency-key': key } })
  }
  const keysNamed = async (name: string) =>
    (await gateway.request('GET', `/api-keys?name=${name}`)).body.data as { id: number }[]
  const markers = async () => {
    const client = gateway.store.client
    const left: number[] = []
    for await (const names of client.scanIterator({ MATCH: gateway.store.key('apikey-operation', '*') }))
      for (const name of names) left.push(await client.pTTL(name))
    return left
  }

  /** Runs `work` once, after the next API key was created and before the request for this key is answered. */
  const afterNextKey = (work: () => Promise<void>) => {
    const { keys } = gateway.access
    const create = keys.create.bind(keys)
    keys.create = async (...args) => {
      keys.create = create
      const made = await create(...args)
      await work()
      return made
    }
  }

  /** Kills the store, and lets the gateway answer without the store. The answer can therefore not be stored. */
  const loseNextAnswer = async () => {
    const { shared } = gateway.access
    const wait = shared.visibleEverywhere.bind(shared)
    shared.visibleEverywhere = () => {
      shared.visibleEverywhere = wait
      return Promise.resolve()
    }
    await killUnder(gateway.store, gateway.redis)
  }

  it('creates only one API key if the first answer was sent but not stored', async () => {
    afterNextKey(loseNextAnswer)
    const first = await send('/api-keys', { name: 'once' })
    expect(first.status, first.text).to.equal(201)
    const second = await send('/api-keys', { name: 'once' })
    expect([second.status, second.text]).to.deep.equal([201, first.text])
    expect(second.headers['idempotency-replayed']).to.equal(undefined)
    expect(await keysNamed('once')).to.have.length(1)
    const { key } = second.body.data
    expect((await gateway.request('GET', '/containers', { key })).status).to.equal(200)
    expect((await send('/api-keys', { name: 'once' })).headers['idempotency-replayed']).to.equal('true')
  })

  it('creates only one API key if the store wrote the key but failed before it confirmed the write', async () => {
    afterNextKey(async () => {
      await killUnder(gateway.store, gateway.redis)
      throw storeUnavailable('make an API key')
    })
    expect((await send('/api-keys', { name: 'once' })).status).to.equal(503)
    const { status, body } = await send('/api-keys', { name: 'once' })
    expect([status, await keysNamed('once')]).to.deep.equal([
      201,
      (await keysNamed('once')).filter(({ id }) => id === body.data.id),
    ])
    expect((await gateway.request('GET', '/containers', { key: body.data.key })).status).to.equal(200)
  })

  it('does not create a second API key if the first key was deleted before the request is repeated', async () => {
    afterNextKey(loseNextAnswer)
    const { data } = (await send('/api-keys', { name: 'stolen' })).body
    await waitFor(() => gateway.store.ready())
    expect((await gateway.request('DELETE', `/api-keys/${data.id}`)).status).to.equal(200)
    const again = await send('/api-keys', { name: 'stolen' })
    expect([again.status, again.body.code]).to.deep.equal([409, 'invalid_state'])
    expect(await keysNamed('stolen')).to.deep.equal([])
    expect((await gateway.request('GET', '/containers', { key: data.key })).status).to.equal(401)
  })

  it('leaves a record of the created API key in the store for two days, without the key’s secret', async () => {
    await gateway.request('POST', '/api-keys', { body: { name: 'without' } })
    expect(await markers()).to.deep.equal([])
    const { key } = (await send('/api-keys', { name: 'with' })).body.data
    const [leftMs, ...others] = await markers()
    expect(others).to.deep.equal([])
    expect(leftMs).to.be.within(47 * 3_600_000, 48 * 3_600_000)
    expect(await gateway.redis.readAof()).not.to.contain(key)
  })

  describe('to POST /hosts', () => {
    let test: TestFleet
    beforeEach(async () => {
      test = await startTestFleet()
      const { hosts } = test.fleet
      Object.assign(gateway.fleet.hosts, {
        createHost: async (...args: Parameters<typeof hosts.createHost>) => {
          const created = await hosts.createHost(...args)
          await onceCreated.shift()?.()
          return created
        },
        createJoinToken: hosts.createJoinToken.bind(hosts),
      })
    })
    afterEach(() => test.close())
    const onceCreated: (() => Promise<void>)[] = []

    const host = { name: 'one', address: '127.0.0.1:1' }
    const failOnce = async () => {
      onceCreated.push(() => killUnder(test.store, test.redis))
      expect((await send('/hosts', host)).status).to.equal(503)
      await waitFor(() => test.store.ready())
    }

    it('adds only one host if the first request could not store the join token', async () => {
      await failOnce()
      const { status, body, text } = await send('/hosts', host)
      expect(status, text).to.equal(201)
      expect([...test.fleet.view.hosts()].map(({ id }) => id)).to.deep.equal([body.data.host.id])
      expect((await send('/hosts', host)).text).to.equal(text)
      const another = { ...host, address: '127.0.0.1:2' }
      expect((await send('/hosts', another, 'another')).body.code).to.equal('name_conflict')
    })

    it('gets the answer 409 if the host that the first request added was removed before the repetition', async () => {
      await failOnce()
      const [{ id } = { id: '' }] = test.fleet.view.hosts()
      await test.fleet.hosts.removeHost(id, { force: false })
      const again = await send('/hosts', host)
      expect([again.status, again.body.code]).to.deep.equal([409, 'invalid_state'])
      expect([...test.fleet.view.hosts()]).to.deep.equal([])
    })
  })
})
