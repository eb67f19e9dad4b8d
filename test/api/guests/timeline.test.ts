import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { SubUserCalls, type Caller } from '../../support/gateway/sub-user-calls.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

interface Entry {
  readonly kind: string
  readonly action: string
  readonly status: string
  readonly user: string
  readonly address: string
  readonly detail: string
  readonly task_id: string
  readonly timestamp: number
}

describe('the timeline of a container', function () {
  let gateway: TestGateway
  let guest: Guest
  let customer: Caller

  before(async () => {
    gateway = await startTestGateway()
    await gateway.fleet.work('host-a')
    guest = await gateway.fleet.addGuest({ name: 'told' })
    const other = await gateway.fleet.addGuest({ name: 'other' })
    const calls = new SubUserCalls(gateway)
    customer = await calls.loggedIn(await calls.make({ container_name: 'told' }))
    await change('PUT', '/firewall', { enabled: false })
    await gateway.request('PUT', `/containers/${other.id}/firewall`, { body: { enabled: false } })
    const { body } = await customer('POST', '/containers/told/stop', { body: {} })
    await done(body.data.task_id as string)
  })
  after(() => gateway.close())

  const change = (method: 'PUT' | 'POST', end: string, body: object) =>
    gateway.request(method, `/containers/${guest.id}${end}`, { body })
  const done = (id: string) =>
    waitFor(() => gateway.fleet.view.findOperation(id)?.operation.status === 'done', { what: id })
  const asAdmin: Caller = (...request) => gateway.request(...request)
  async function read(ask: Caller = asAdmin, query = ''): Promise<Entry[]> {
    const { status, text, body } = await ask('GET', `/containers/told/timeline${query}`)
    expect(status, text).to.equal(200)
    return body.data as Entry[]
  }

  it('lists tasks and other changes together, newest first, with each task only once', async () => {
    const entries = await read()
    expect(entries.map(({ kind, action }) => `${kind} ${action}`)).to.deep.equal([
      'task stop',
      'change container.firewall',
      'change sub_user.create',
    ])
    const [stop] = entries
    expect(stop).to.include({ status: 'done', address: '127.0.0.1' })
    expect(stop!.task_id).not.to.equal('')
    const times = entries.map(({ timestamp }) => timestamp)
    expect(times).to.deep.equal(times.toSorted((a, b) => b - a))
    expect(await read(asAdmin, '?limit=1')).to.have.length(1)
  })

  it('shows customers only their own tasks and actions, and no alerts', async () => {
    const entries = await read(customer)
    expect(entries.map(({ action }) => action)).to.deep.equal(['stop'])
    await customer('PUT', '/containers/told/firewall', { body: { enabled: false } })
    expect((await read(customer)).map(({ action }) => action)).to.deep.equal(['container.firewall', 'stop'])
    const key = await gateway.makeKey({ scopes: ['container:read'], container_uuids: [guest.uuid] })
    expect(await read((method, path) => gateway.request(method, path, { key }))).to.deep.equal([])
  })

  it('shows restarts by the agent after a crash, and shows stops at the expiry date', async () => {
    await change('POST', '/start', {})
    const agent = gateway.fleet.agentOf('host-a')
    await waitFor(() => agent.host.driver.running.has(guest.uuid), { what: 'it runs' })
    agent.host.driver.end(guest.uuid, 'crash')
    await waitFor(async () => (await read()).some(({ kind }) => kind === 'restart'), { what: 'restarted' })
    await change('PUT', '/expiry', { expires_at: '2001-01-01 00:00:00' })
    const stopped = await waitFor(async () => (await read()).find(({ kind }) => kind === 'policy'), {
      what: 'stopped by policy',
    })
    expect(stopped).to.include({ action: 'stop', user: 'system' })
  })

  it('keeps its entries even if a customer of another container floods the audit log', async () => {
    const seen = async () => [
      (await read()).filter(({ kind }) => kind === 'change').map(({ action }) => action),
      ((await customer('GET', '/account/audit-logs')).body.data as unknown[]).length,
    ]
    const before = await seen()
    expect(before[1]).to.be.greaterThan(0)
    const calls = new SubUserCalls(gateway)
    const attacker = await calls.loggedIn(await calls.make({ container_name: 'other' }))
    // Writes more entries than the audit log retains.
    for (let n = 0; n < 1200; n += 20)
      await Promise.all(
        Array.from({ length: 20 }, (_, at) => attacker('POST', `/containers/none-${n + at}/start`, { body: {} })),
      )
    expect(await seen()).to.deep.equal(before)
  })

  it('is shown only for containers of the caller, with at most 200 entries', async () => {
    expect((await customer('GET', '/containers/other/timeline')).status).to.equal(404)
    for (const limit of ['0', '201', 'x'])
      expect((await gateway.request('GET', `/containers/told/timeline?limit=${limit}`)).status).to.equal(400)
  })
})
