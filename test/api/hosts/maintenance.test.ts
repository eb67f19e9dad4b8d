import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { Maintenance } from '../../../gateway/maintenance/maintenance.js'
import { Store } from '../../../gateway/store/store.js'
import { BerthError } from '../../../shared/errors.js'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { Body } from '../../support/body.js'
import { EventStream } from '../../support/gateway/event-stream.js'
import { silentLog } from '../../support/gateway/redis.js'
import { SubUserCalls } from '../../support/gateway/sub-user-calls.js'
import { startTestGateway, type Reply, type TestGateway } from '../../support/gateway/test-gateway.js'
import { WebhookReceiver } from '../../support/gateway/webhook-receiver.js'
import { waitFor } from '../../support/wait.js'

const hosts = ['host-a', 'host-b'] as const
const minute = 60_000

describe('maintenance windows over HTTP', () => {
  let gateway: TestGateway
  /** Present time in ms since 1970 of the gateway's clock, which determines when windows begin and end. */
  let nowMs = Math.floor(Date.now() / 1000) * 1000
  let guest: Guest
  let other: Guest
  const open: { close(): unknown }[] = []

  before(async () => {
    gateway = await startTestGateway({ hosts, now: () => nowMs })
    for (const id of hosts) await gateway.fleet.work(id)
    guest = await gateway.fleet.addGuest({ name: 'web' }, 'host-a')
    other = await gateway.fleet.addGuest({ name: 'secret-of-others' }, 'host-b')
  })
  after(() => gateway.close())
  afterEach(async () => {
    for (const one of open.splice(0)) await one.close()
    for (const { id, state } of await list())
      if (['announced', 'active'].includes(state)) await call('POST', `/maintenance/${id}/cancel`)
  })

  const call = (method: string, path: string, body?: object, headers = {}): Promise<Reply> =>
    gateway.request(method, path, { ...(body && { body }), headers })
  const list = async (query = ''): Promise<Body[]> => (await call('GET', `/maintenance${query}`)).body.data as Body[]
  const timeAt = (ms: number): string => new Date(nowMs + ms).toISOString()
  const wanted = (fields: object = {}): object => ({
    hosts: ['host-a'],
    starts_at: timeAt(10 * minute),
    ends_at: timeAt(60 * minute),
    ...fields,
  })
  const announce = async (fields: object = {}): Promise<Body> => {
    const { status, body, text } = await call('POST', '/maintenance', wanted(fields))
    expect(status, text).to.equal(201)
    return body.data
  }
  const readOf = async ({ uuid }: Guest, headers?: Record<string, string>): Promise<Body> => {
    const options = headers ? { key: '', headers } : {}
    return (await gateway.request('GET', `/containers/${uuid}`, options)).body.data.maintenance
  }
  /** Returns the maintenance that a container shows. Checks that its row in the list shows the same. */
  const shownOn = async (one: Guest, headers?: Record<string, string>): Promise<Body> => {
    const shown = await readOf(one, headers)
    const { body } = await gateway.request('GET', '/containers', headers ? { key: '', headers } : {})
    const row = (body.data as Body[]).find(({ uuid }) => uuid === one.uuid)
    expect(row?.maintenance, 'the row of the list').to.deep.equal(shown)
    return shown
  }
  const stateOf = async (id: string): Promise<string> =>
    String((await call('GET', `/maintenance/${id}`)).body.data.state)
  const passTime = async (ms: number, id: string, state: string): Promise<void> => {
    nowMs += ms
    await waitFor(async () => (await stateOf(id)) === state, { what: state })
  }
  const listen = async (headers: Record<string, string> = { 'x-api-key': gateway.adminKey }): Promise<EventStream> => {
    const stream = await EventStream.open(gateway.url, headers)
    open.push({ close: () => stream.close() })
    await stream.wait(({ event }) => event === 'ready', 'a beginning')
    return stream
  }
  const typesOf = ({ events }: EventStream, id: string): unknown[] =>
    events.filter(({ event, data }) => event === 'maintenance' && data.data?.['id'] === id).map(({ data }) => data.type)
  /** Starts another worker on the same data, like that of another gateway. */
  const startWorker = async (): Promise<Maintenance> => {
    const store = new Store({ url: gateway.redis.url, prefix: 'btest:', log: silentLog })
    const worker = new Maintenance({ store, log: silentLog, everyMs: 20, leaseMs: 400, now: () => nowMs })
    store.start()
    await waitFor(() => store.ready(), { what: 'the store' })
    worker.start(gateway.fleet)
    open.push({ close: () => worker.close().then(() => store.close()) })
    return worker
  }

  it('are shown with each container of their hosts, and start and end automatically', async () => {
    const text = { interruption_minutes: 5, message: 'A new network card.' }
    const made = await announce(text)
    const shown = { id: made.id, state: 'announced', starts_at: made.starts_at, ends_at: made.ends_at, ...text }
    expect(made).to.deep.include({ ...shown, hosts: [{ id: 'host-a', name: 'host-a' }], containers: 1, closed_at: '' })
    expect(await list('?state=announced')).to.deep.equal([made])
    expect([await shownOn(guest), await shownOn(other)]).to.deep.equal([shown, null])
    const metrics = await (await fetch(`${gateway.url}/metrics`)).text()
    expect(metrics).to.include('berth_maintenance_windows{state="announced"} 1')
    await passTime(10 * minute, made.id, 'active')
    await waitFor(async () => (await readOf(guest))?.state === 'active', { what: 'the start at the container' })
    await passTime(50 * minute, made.id, 'ended')
    await waitFor(async () => (await readOf(guest)) === null, { what: 'the end at the container' })
    expect((await call('GET', `/maintenance/${made.id}`)).body.data.closed_at).not.to.equal('')
  })

  it('cause events for the provider, and for customers with a container on the host', async () => {
    const calls = new SubUserCalls(gateway)
    const sessionOf = async ({ name }: Guest): Promise<Record<string, string>> => {
      return calls.headers(await calls.account(await calls.make({ container_name: name })))
    }
    const customer = await sessionOf(guest)
    const bound = await gateway.makeKey({ scopes: ['*'], container_uuids: [guest.uuid] })
    const [all, own, ofKey, ofOther] = [
      await listen(),
      await listen(customer),
      await listen({ 'x-api-key': bound }),
      await listen(await sessionOf(other)),
    ]
    const { id } = await announce({ message: 'soon' })
    const everywhere = await announce({ hosts: ['HOST-B', 'host-a'] })
    await call('PATCH', `/maintenance/${id}`, { ends_at: timeAt(90 * minute) })
    await passTime(10 * minute, id, 'active')
    await call('POST', `/maintenance/${id}/cancel`)
    await call('POST', `/maintenance/${everywhere.id}/cancel`)
    const happened = ['announced', 'changed', 'started', 'ended'].map((word) => `maintenance.${word}`)
    for (const stream of [all, own, ofKey, ofOther])
      await stream.wait(
        ({ data }) => data.data?.['id'] === everywhere.id && data.type === 'maintenance.ended',
        'the end',
      )
    for (const stream of [all, own, ofKey]) expect(typesOf(stream, id)).to.deep.equal(happened)
    expect(typesOf(ofOther, id)).to.deep.equal([])
    const { data } = await own.type('maintenance.announced')
    expect(data.data).to.include({ id, host_id: 'host-a', state: 'announced', message: 'soon' })
    expect((await all.type('maintenance.announced')).data.data).to.deep.equal({ ...data.data, host_name: 'host-a' })
    for (const stream of [own, ofKey]) {
      expect(JSON.stringify(stream.events)).not.to.include('host_name').and.not.to.include(other.name)
      expect(typesOf(stream, everywhere.id)).to.have.length(3)
    }
    expect(await shownOn(guest, customer)).to.equal(null)
    expect((await gateway.request('GET', '/maintenance', { key: bound })).status).to.equal(403)
  })

  it('are shown with a container that moves to one of their hosts', async () => {
    const moved = await gateway.fleet.addGuest({ name: 'moved' }, 'host-b')
    gateway.fleet.agentOf('host-b').host.contents.set(moved.uuid, 'disk')
    const { id } = await announce({ hosts: ['host-a'] })
    expect(await shownOn(moved)).to.equal(null)
    await call('POST', `/containers/${moved.uuid}/migrate`, { host_id: 'host-a' })
    await waitFor(async () => (await readOf(moved))?.id === id, { what: 'the window of the new host' })
  })

  it('concern the hosts that are members of a group at the time of the request', async () => {
    await call('PATCH', '/hosts/host-a', { group: 'rack-1' })
    const made = await announce({ hosts: undefined, group: 'rack-1' })
    expect(made.hosts).to.deep.equal([{ id: 'host-a', name: 'host-a' }])
    const stream = await listen()
    const changed = await call('PATCH', `/maintenance/${made.id}`, { hosts: ['host-b'] })
    expect(changed.body.data.hosts).to.deep.equal([{ id: 'host-b', name: 'host-b' }])
    expect([await shownOn(guest), (await shownOn(other)).id]).to.deep.equal([null, made.id])
    await waitFor(() => typesOf(stream, made.id).length === 2, { what: 'both events' })
    expect(typesOf(stream, made.id)).to.have.members(['maintenance.canceled', 'maintenance.announced'])
  })

  it('are announced only once if the request is repeated', async () => {
    const headers = { 'idempotency-key': randomUUID() }
    const replies = [
      await call('POST', '/maintenance', wanted(), headers),
      await call('POST', '/maintenance', wanted(), headers),
    ]
    expect(new Set(replies.map(({ body }) => String(body.data.id))).size).to.equal(1)
    expect(await list('?state=announced')).to.have.length(1)
  })

  for (const [title, fields, refused] of [
    ['without hosts', { hosts: undefined }, 'hosts'],
    ['with an unknown host', { hosts: ['nowhere'] }, 'hosts'],
    ['with hosts and a group', { group: 'rack-1' }, 'group'],
    ['with a group without hosts', { hosts: undefined, group: 'nobody' }, 'group'],
    ['with control characters in the text', { message: 'a\u001b[31mb' }, 'message'],
    ['with a text that is too long', { message: 'x'.repeat(501) }, 'message'],
    ['with a negative interruption', { interruption_minutes: -1 }, 'interruption_minutes'],
    ['with a text in place of a time', { starts_at: 'soon' }, 'starts_at'],
    ['with a start that is only a date', { starts_at: '2030-01-15' }, 'starts_at'],
    ['without an end', { ends_at: '' }, 'ends_at'],
    ['with a start in the past', { starts_at: '2020-01-01 00:00:00' }, 'starts_at'],
  ] as const)
    it(`are refused ${title}`, async () => {
      const { status, body } = await call('POST', '/maintenance', wanted(fields))
      expect([status, body.code, body.details?.field]).to.deep.equal([400, 'invalid_field', refused])
    })

  it('cannot be changed after the end', async () => {
    const { id } = await announce()
    await call('POST', `/maintenance/${id}/cancel`)
    for (const [method, path, body] of [
      ['PATCH', '', { message: 'late' }],
      ['POST', '/cancel', undefined],
    ] as const) {
      const { status, body: answer } = await call(method, `/maintenance/${id}${path}`, body)
      expect([status, answer.code]).to.deep.equal([409, 'invalid_state'])
    }
    expect((await call('GET', '/maintenance/unknown')).status).to.equal(404)
  })

  it('reach their hosts even if the gateway fails after it has stored the windows', async () => {
    const { hosts: admin } = gateway.fleet
    const recordMaintenance = admin.recordMaintenance.bind(admin)
    admin.recordMaintenance = () => Promise.reject(new BerthError('unavailable', 'store_unavailable', 'a fault'))
    const { status } = await call('POST', '/maintenance', wanted())
    expect(status).to.equal(503)
    expect(await shownOn(guest)).to.equal(null)
    admin.recordMaintenance = recordMaintenance
    await waitFor(async () => (await readOf(guest))?.state === 'announced', { what: 'the window at the container' })
  })

  it('are canceled at their hosts if the store has lost them', async () => {
    const { id } = await announce()
    const stream = await listen()
    const { store } = gateway
    await store.run('lose the windows', (client) => client.del(store.key('maintenance-windows')))
    await stream.wait(
      ({ data }) => data.type === 'maintenance.canceled' && data.data?.['id'] === id,
      'the cancellation',
    )
    expect(await shownOn(guest)).to.equal(null)
  })

  it('send each event once and in order, even if two gateways process late changes at the same time', async () => {
    const receiver = await WebhookReceiver.start()
    open.push({ close: () => receiver.down() })
    await call('POST', '/webhooks', { name: 'all', url: receiver.url, events: ['maintenance.*'] })
    const stream = await listen()
    const { id } = await announce({ hosts })
    await gateway.maintenance.close()
    nowMs += 2 * 60 * minute
    await Promise.all([startWorker(), startWorker()])
    const order = ['maintenance.announced', 'maintenance.started', 'maintenance.ended']
    const ofHost = (events: readonly Body[], host: string): unknown[] =>
      events.filter(({ data }) => data?.id === id && data.host_id === host).map(({ type }) => String(type))
    const [received, streamed] = [
      () => receiver.messages.map(({ body }) => body),
      () => stream.events.map(({ data }) => data),
    ]
    for (const [what, read] of [
      ['webhook', received],
      ['stream', streamed],
    ] as const) {
      await waitFor(() => hosts.every((host) => ofHost(read(), host).includes('maintenance.ended')), {
        what: () => `the end: ${JSON.stringify(read())}`,
      })
      for (const host of hosts) expect(ofHost(read(), host), what).to.deep.equal(order)
    }
  })
})
