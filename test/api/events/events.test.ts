import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { EventStream } from '../../support/gateway/event-stream.js'
import { SubUserCalls } from '../../support/gateway/sub-user-calls.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'
import { expectInTime } from '../../support/promised-time.js'

const endWithinMs = 2000

describe('GET /events', function () {
  let gateway: TestGateway
  let guest: Guest
  let other: Guest
  const open: EventStream[] = []

  before(async () => {
    const limits = { caller: { perSecond: 0, atOnce: 3 } }
    gateway = await startTestGateway({ limits, trustedProxies: ['127.0.0.1'] })
    await gateway.fleet.work('host-a')
    guest = await gateway.fleet.addGuest({ name: 'told-of' })
    other = await gateway.fleet.addGuest({ name: 'another' })
  })
  after(() => gateway.close())
  afterEach(async () => {
    open.splice(0).forEach((stream) => stream.close())
    await waitFor(() => gateway.events.listeners === 0, { what: 'no listeners' })
  })

  const stream = async (
    key = gateway.adminKey,
    { query = '', headers = {} }: { query?: string; headers?: Record<string, string> } = {},
  ): Promise<EventStream> => {
    const opened = await EventStream.open(gateway.url, { ...(key && { 'x-api-key': key }), ...headers }, query)
    open.push(opened)
    await opened.wait(({ event }) => event === 'ready' || event === 'reset', 'a beginning')
    return opened
  }
  const rename = (uuid: string, text: string): Promise<void> => {
    gateway.fleet.agentOf('host-a').update(uuid, { statusReason: text })
    return gateway.fleet.caughtUp('host-a')
  }
  /** Changes `other`, then `guest`. An event stream gets both changes in this order if its caller sees both guests. */
  const changeBoth = async (text: string): Promise<void> => {
    await rename(other.uuid, text)
    await rename(guest.uuid, text)
  }
  const uuidsIn = (from: EventStream): unknown[] => [
    ...new Set(from.events.filter(({ event }) => event === 'guest').map(({ data }) => data.data?.['uuid'])),
  ]
  const endOf = async (listening: EventStream, act: () => Promise<unknown>): Promise<string | undefined> => {
    await act()
    const begunMs = performance.now()
    await waitFor(() => listening.closed, { what: 'the end of the stream' })
    expectInTime(begunMs, endWithinMs, 'its end')
    return listening.events.at(-1)?.data.code
  }

  it('sends events when a container changes, when its tasks end and when the container is deleted', async () => {
    const listening = await stream()
    expect(listening.response.headers['content-type']).to.equal('text/event-stream; charset=utf-8')
    await rename(guest.uuid, 'seen')
    const { data, event } = await listening.type('guest.updated')
    const { body } = await gateway.request('GET', `/containers/${guest.id}`)
    const { owners, ...row } = body.data as Record<string, unknown>
    expect([event, data.data, owners]).to.deep.equal(['guest', row, []])
    const doomed = await gateway.fleet.addGuest({ name: 'doomed' })
    await listening.type('guest.created')
    const queued = await gateway.request('DELETE', `/containers/${doomed.id}/delete`)
    const { task_id } = queued.body.data as { task_id: string }
    const done = await listening.type('task.done')
    expect(done.data.data).to.deep.equal((await gateway.request('GET', `/tasks/${task_id}`)).body.data)
    const gone = await listening.type('guest.removed')
    expect(gone.data.data).to.deep.equal({
      id: doomed.id,
      uuid: doomed.uuid,
      name: 'doomed',
      host_id: 'host-a',
    })
    const numbers = listening.events.map(({ id }) => Number(id.split('.')[1]))
    expect(numbers).to.deep.equal(numbers.toSorted((a, b) => a - b))
  })

  it('continues after the client’s last event, or sends a reset event if the gateway no longer has the last event', async () => {
    const first = await stream()
    await rename(guest.uuid, 'one')
    const { id } = await first.type('guest.updated')
    first.close()
    await rename(guest.uuid, 'two')
    await rename(guest.uuid, 'three')
    const again = await stream(gateway.adminKey, { headers: { 'last-event-id': id } })
    const reasons = (): unknown[] =>
      again.events.filter(({ event }) => event === 'guest').map(({ data }) => data.data?.['status_reason'])
    await waitFor(() => reasons().length === 2)
    expect([again.events[0]?.event, reasons()]).to.deep.equal(['ready', ['two', 'three']])
    for (const unknown of ['another.5', `${id.split('.')[0]}.999999`, 'garbage']) {
      const lost = await stream(gateway.adminKey, { query: `?last_event_id=${unknown}` })
      expect(lost.events.map(({ event }) => event).slice(0, 1), unknown).to.deep.equal(['reset'])
      lost.close()
      await waitFor(() => gateway.events.listeners <= 2)
    }
    const metrics = await (await fetch(`${gateway.url}/metrics`)).text()
    expect(metrics).to.include('berth_event_stream_resets_total 3')
  })

  it('sends only events that the scopes and the containers of the API key allow', async () => {
    const bound = await gateway.makeKey({ scopes: ['*'], container_uuids: [guest.uuid] })
    const tasks = await gateway.makeKey({ scopes: ['task:read'] })
    const [all, own, few] = [await stream(), await stream(bound), await stream(tasks)]
    await changeBoth('bounds')
    await gateway.request('POST', `/containers/${other.id}/stop`)
    await gateway.request('POST', `/containers/${guest.id}/stop`)
    for (const listening of [all, own, few])
      await listening.wait(
        ({ data }) => data.type === 'task.done' && data.data?.['container_name'] === guest.name,
        'the end of the task',
      )
    expect(uuidsIn(all)).to.have.members([guest.uuid, other.uuid])
    expect(uuidsIn(own)).to.deep.equal([guest.uuid])
    expect(JSON.stringify(own.events)).not.to.include(other.name)
    const kinds = new Set(few.events.map(({ event }) => event))
    expect([...kinds].sort()).to.deep.equal(['ready', 'task'])
  })

  it('sends no owners of containers, and lists of containers also hide the owners from callers bound to containers', async () => {
    const calls = new SubUserCalls(gateway)
    const made = await calls.make({ container_name: guest.name })
    const session = await calls.headers(await calls.account(made))
    const bound = await gateway.makeKey({ scopes: ['*'], container_uuids: [guest.uuid] })
    const listening = [await stream(), await stream(bound), await stream('', { headers: session })]
    await rename(guest.uuid, 'owned')
    for (const each of listening) expect((await each.type('guest.updated')).data.data).not.to.have.property('owners')
    for (const path of ['/containers', '/containers/list', `/containers/${guest.id}`])
      for (const headers of [{ 'x-api-key': bound }, session]) {
        const { status, body } = await gateway.request('GET', path, { key: '', headers })
        expect([status, JSON.stringify(body.data).includes('owners')], path).to.deep.equal([200, false])
      }
    const seen = await gateway.request('GET', `/containers/${guest.id}`)
    expect(seen.body.data.owners).to.deep.equal([{ id: made.id, username: made.username }])
  })

  it('sends a sub-user only events about its own containers, and no events about hosts', async () => {
    const calls = new SubUserCalls(gateway)
    const made = await calls.make({ container_name: guest.name })
    const session = await calls.headers(await calls.account(made))
    const listening = await stream('', { headers: session })
    await changeBoth('of a sub-user')
    await listening.type('guest.updated')
    await gateway.fleet.setHostState('host-a', 'offline')
    expect((await listening.type('guest.host')).data.data).to.deep.equal({ host_id: 'host-a', online: false })
    await gateway.fleet.setHostState('host-a', 'online')
    await listening.wait(({ data }) => data.data?.['online'] === true, 'the host is back')
    expect(uuidsIn(listening).filter(Boolean)).to.deep.equal([guest.uuid])
    const kinds = new Set(listening.events.map(({ event }) => event))
    expect([...kinds].sort()).to.deep.equal(['guest', 'ready'])
    const disable = () => calls.change(made.id, { disabled: true })
    expect(await endOf(listening, disable)).to.equal('unauthorized')
  })

  it('sends the usage and the state of a host, but no events about unchanged guests', async () => {
    const listening = await stream(gateway.adminKey, { query: '?kinds=host,usage,guest' })
    await gateway.fleet.setHostState('host-a', 'offline')
    await listening.type('host.offline')
    await gateway.fleet.setHostState('host-a', 'online')
    await listening.type('host.online')
    expect((await listening.type('usage.host')).data.data).to.include({ host_id: 'host-a' })
    expect(listening.types).not.to.include('guest.updated')
  })

  it('sends one event for each step of a host’s installation, even if the host reports the step twice', async () => {
    const { hosts } = gateway.fleet
    const { id } = await hosts.createHost({ name: 'new-host' })
    const listening = await stream(gateway.adminKey, { query: '?kinds=host' })
    for (const step of ['checking', 'waiting', 'waiting', 'failed'] as const)
      await hosts.reportInstall(id, { step, message: '', atMs: Date.now() })
    await hosts.removeHost(id, { force: false })
    await listening.type('host.removed')
    expect(listening.types.filter((type) => type === 'host.updated')).to.have.length(3)
  })

  it('ends if its API key is disabled, or if the rights or the addresses of the key change', async () => {
    for (const [change, code] of [
      [{ disabled: true }, 'key_disabled'],
      [{ scopes: ['task:read', 'host:read'] }, 'rights_changed'],
      [{ scopes: ['host:read'] }, 'insufficient_scope'],
      [{ ip_whitelist: '192.0.2.1' }, 'ip_not_allowed'],
    ] as const) {
      const made = await gateway.request('POST', '/api-keys', {
        body: { name: `ends ${code}`, scopes: ['task:read', 'container:read'] },
      })
      const { key, id } = made.body.data as { key: string; id: number }
      const listening = await stream(key)
      const patch = () => gateway.request('PATCH', `/api-keys/${id}`, { body: change })
      expect(await endOf(listening, patch), code).to.equal(code)
    }
  })

  it('ends when its session ends', async () => {
    const calls = new SubUserCalls(gateway)
    const made = await calls.make({ container_name: other.name })
    const headers = await calls.headers(await calls.account(made))
    const listening = await stream('', { headers })
    const logout = () => gateway.request('POST', '/logout', { key: '', headers })
    expect(await endOf(listening, logout)).to.equal('unauthorized')
  })

  it('ends when the access policy excludes the client’s address', async () => {
    const via = (address: string) => ({ 'x-forwarded-for': address })
    const listening = await stream(gateway.adminKey, { headers: via('203.0.113.9') })
    const set = (enabled: boolean) =>
      gateway.request('PUT', '/access-policy', {
        body: { enabled, allowed_sources: ['192.0.2.5'] },
        headers: via('192.0.2.5'),
      })
    // The stream ends without a final event, because the access policy closes all connections of the client's address.
    expect(await endOf(listening, () => set(true))).to.equal(undefined)
    expect((await set(false)).status).to.equal(200)
  })

  it('counts as a concurrent request until it ends', async () => {
    const key = await gateway.makeKey({ scopes: ['task:read'] })
    const [first] = [await stream(key), await stream(key), await stream(key)]
    const refused = await gateway.request('GET', '/tasks', { key })
    expect([refused.status, refused.body.code]).to.deep.equal([429, 'rate_limited'])
    first.close()
    await waitFor(async () => (await gateway.request('GET', '/tasks', { key })).status === 200)
  })

  it('refuses unknown kinds of events, and answers HEAD without a stream', async () => {
    const { status, body } = await gateway.request('GET', '/events?kinds=guest,nothing')
    expect([status, body.code, body.details.field]).to.deep.equal([400, 'invalid_field', 'kinds'])
    expect((await gateway.request('HEAD', '/events')).status).to.equal(200)
    expect(gateway.events.listeners).to.equal(0)
  })
})

describe('GET /events if a client is slow', function () {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway({ events: { limits: { count: 300, bytes: 1024 ** 2 } } })
  })
  after(() => gateway.close())

  it('sends a reset event instead of missed events, needs little memory, and does not delay other clients', async () => {
    const guest = await gateway.fleet.addGuest({ name: 'changing' })
    const key = { 'x-api-key': gateway.adminKey }
    const [quick, slow] = [
      await EventStream.open(gateway.url, key, '?kinds=guest'),
      await EventStream.open(gateway.url, key, '?kinds=guest'),
    ]
    await Promise.all([quick, slow].map((one) => one.wait(({ event }) => event === 'ready', 'ready')))
    slow.pause()
    const seen: number[] = []
    const { view } = gateway.fleet
    const reason = 'x'.repeat(900)
    const change = (round: number): void => {
      const value = { ...guest, revision: 1e6 + round, statusReason: `${round} ${reason}` }
      view.apply(view.findState('host-a')!, { $case: 'guest', value })
    }
    const [rounds, heap] = [16_000, heapUsed()]
    for (let round = 0; round < rounds; round++) {
      change(round)
      if (round % 200 !== 199) continue
      await waitFor(() => quick.events.some(({ data }) => isRound(data.data, round)), { intervalMs: 2 })
      seen.push(...quick.events.splice(0).map(({ data }) => parseInt(String(data.data?.['status_reason']))))
    }
    // Events without the number of a round: the beginning of the stream, and possibly the creation of the container.
    const received = seen.filter((round) => !Number.isNaN(round))
    expect(received).to.deep.equal(Array.from({ length: rounds }, (_, n) => n))
    expect(gateway.events.ring.bytes).to.be.at.most(1024 ** 2)
    // The events had about 25 MB in total, most of which must no longer be in memory.
    await waitFor(() => heapUsed() - heap < 15 * 1024 ** 2, {
      what: 'no more memory than the ring and a socket',
    })
    slow.resume()
    await slow.wait(({ event }) => event === 'reset', 'the reset event')
    change(rounds)
    await slow.wait(({ data }) => isRound(data.data, rounds), 'later changes')
    expect(slow.events.length).to.be.lessThan(rounds)
    for (const one of [quick, slow]) one.close()
  })
})

/** Bytes in buffers outside of the JavaScript heap, after a garbage collection. */
function heapUsed(): number {
  setFlagsFromString('--expose-gc')
  ;(runInNewContext('gc') as () => void)()
  const { external, arrayBuffers } = process.memoryUsage()
  return external + arrayBuffers
}

function isRound(row: Record<string, unknown> | undefined, round: number): boolean {
  return String(row?.['status_reason']).startsWith(`${round} `)
}
