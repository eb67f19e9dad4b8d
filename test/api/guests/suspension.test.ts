import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { EventStream } from '../../support/gateway/event-stream.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

type Row = Record<string, unknown>

describe('a suspension', () => {
  let gateway: TestGateway
  let guest: Guest
  before(async () => {
    gateway = await startTestGateway()
  })
  after(() => gateway.close())
  beforeEach(async () => {
    guest = await gateway.fleet.addGuest()
  })
  const put = (what: string, body: unknown) => gateway.request('PUT', `/containers/${guest.id}/${what}`, { body })
  const start = () => gateway.request('POST', `/containers/${guest.id}/start`)
  const detail = async (): Promise<Row> => (await gateway.request('GET', `/containers/${guest.id}`)).body.data as Row

  const post = (what: string, body: unknown = {}, options = {}) =>
    gateway.request('POST', `/containers/${guest.id}/${what}`, { body, ...options })
  const suspend = (fields: object = {}, options = {}) =>
    post('suspend', { reason: 'invoice 7 is overdue', message: 'Please pay', ...fields }, options)
  const codeOf = async (work: ReturnType<typeof post>): Promise<unknown> => {
    const { status, body } = await work
    return [status, body.code]
  }

  it('is shown with its reason, message, mode and end, until it is lifted', async () => {
    expect(await detail()).not.to.have.any.keys('policy', 'suspended_mode', 'suspended_at')
    const { status, text } = await suspend({ mode: 'network', until: '2030-05-01' })
    expect(status, text).to.equal(200)
    const row = await detail()
    expect(row).to.include({
      policy_blocked: true,
      policy_reason: 'suspended',
      policy: 'suspended',
      suspended_mode: 'network',
      suspended_reason: 'invoice 7 is overdue',
      suspended_message: 'Please pay',
      suspended_until: '2030-05-01 23:59:59',
      status: 'running',
    })
    expect(row['suspended_at']).to.match(/^\d{4}-/)
    expect((await post('unsuspend')).body.message).to.equal('container unsuspended')
    expect(await detail()).to.include({ policy_blocked: false, policy_reason: '' })
    expect(await detail()).not.to.have.any.keys('policy', 'suspended_mode', 'suspended_reason')
    expect((await post('unsuspend')).body.message).to.equal('the container was not suspended')
  })

  it('prevents the use of the container even by an administrator, but not changes of its settings', async () => {
    await suspend()
    const { name } = guest
    for (const [path, body] of [
      ['start', {}],
      ['restart', {}],
      ['reinstall', { template_id: 'debian-12' }],
      ['reset-password', {}],
    ] as const)
      expect(await codeOf(post(path, body)), path).to.deep.equal([403, 'policy_blocked'])
    const boot = gateway.request('PUT', `/containers/${name}/boot`, { body: { mode: 'rescue' } })
    expect(await codeOf(boot), 'boot').to.deep.equal([403, 'policy_blocked'])
    for (const path of ['/ssh-ticket', '/vnc-ticket']) {
      const ticket = gateway.request('POST', path, { body: { container_name: name } })
      expect(await codeOf(ticket), path).to.deep.equal([403, 'policy_blocked'])
    }
    expect((await put('expiry', { expires_at: '2031-01-01' })).status, 'settings can still be changed').to.equal(200)
    expect((await start()).body.message).to.equal('the container is suspended: unsuspend it first')
  })

  it('can be changed by a second suspension, and stays in force if the expiry date changes', async () => {
    await suspend()
    const { suspended_at: since } = await detail()
    expect((await suspend({ message: 'Last reminder' })).status).to.equal(200)
    expect(await detail()).to.include({ suspended_message: 'Last reminder', suspended_at: since })
    await put('expiry', { expires_at: '2020-01-01' })
    expect(await detail()).to.include({ policy_reason: 'suspended, expired' })
    await put('expiry', { expires_at: '' })
    expect(await codeOf(start())).to.deep.equal([403, 'policy_blocked'])
    await put('expiry', { expires_at: '2020-01-01' })
    await post('unsuspend')
    expect(await detail()).to.include({ policy_reason: 'expired', policy: 'expired' })
  })

  for (const [what, body, code, field] of [
    ['no reason', { message: 'x' }, 'missing_field', 'reason'],
    ['an empty reason', { reason: ' ' }, 'invalid_field', 'reason'],
    ['a reason with a line break', { reason: 'a\nb' }, 'invalid_field', 'reason'],
    ['a message that is too long', { reason: 'x', message: 'x'.repeat(501) }, 'invalid_field', 'message'],
    ['an unknown mode', { reason: 'x', mode: 'freeze' }, 'invalid_field', 'mode'],
    ['an end that has passed', { reason: 'x', until: '2020-01-01' }, 'invalid_field', 'until'],
    ['an end that is not a time', { reason: 'x', until: 'soon' }, 'invalid_field', 'until'],
  ] as const)
    it(`is refused with ${what}`, async () => {
      const reply = await post('suspend', body)
      expect([reply.status, reply.body.code, reply.body.details?.field]).to.deep.equal([400, code, field])
      expect(await detail()).to.include({ policy_blocked: false })
    })

  it('requires its own scope, and is refused to callers bound to containers', async () => {
    const bound = { scopes: ['*'], container_uuids: [guest.uuid] }
    for (const fields of [bound, { scopes: ['container:power'] }]) {
      const key = await gateway.makeKey(fields)
      expect(await codeOf(suspend({}, { key }))).to.deep.equal([403, 'insufficient_scope'])
      const batch = { action: 'suspend', reason: 'x', containers: [guest.name] }
      const reply = gateway.request('POST', '/batch-action', { body: batch, key })
      expect(await codeOf(reply)).to.deep.equal([403, 'insufficient_scope'])
    }
    const key = await gateway.makeKey({ scopes: ['container:suspend'] })
    expect((await suspend({}, { key })).status).to.equal(200)
    const own = await gateway.makeKey(bound)
    expect(await codeOf(post('unsuspend', {}, { key: own }))).to.deep.equal([403, 'insufficient_scope'])
    expect((await gateway.request('POST', '/containers/none/suspend', { body: { reason: 'x' } })).status).to.equal(404)
  })

  it('shows customers its message, but not its reason, in answers, lists and events', async () => {
    const key = await gateway.makeKey({
      scopes: ['container:read', 'task:read'],
      container_uuids: [guest.uuid],
    })
    const headers = { 'x-api-key': key }
    const stream = await EventStream.open(gateway.url, headers)
    const all = await EventStream.open(gateway.url, { 'x-api-key': gateway.adminKey })
    try {
      for (const one of [stream, all]) await one.wait(({ event }) => event === 'ready', 'a beginning')
      await suspend()
      const shown = await gateway.request('GET', `/containers/${guest.id}`, { key })
      const listed = await gateway.request('GET', '/containers', { key })
      for (const { text } of [shown, listed])
        expect(text).to.contain('"suspended_message":"Please pay"').and.not.contain('invoice 7')
      const { data } = await stream.type('guest.suspended')
      expect(data.data).to.deep.equal(shown.body.data)
      const { owners, ...row } = await detail()
      expect(owners).to.deep.equal([])
      expect((await all.type('guest.suspended')).data.data).to.deep.equal(row)
      await post('unsuspend')
      await stream.type('guest.unsuspended')
      expect(JSON.stringify(stream.events)).not.to.contain('invoice 7')
    } finally {
      for (const one of [stream, all]) one.close()
    }
  })

  it('is recorded in the audit log without its reason, because customers can read the log', async () => {
    await suspend({ until: '2030-05-01' })
    await post('unsuspend')
    const { body } = await gateway.request('GET', `/audit-logs?target=${guest.name}`)
    const rows = body.data as { action: string; success: boolean; detail: string }[]
    expect(rows.map(({ action, success, detail }) => [action, success, detail])).to.deep.equal([
      ['container.unsuspend', true, `id ${guest.id}, suspension lifted`],
      ['container.suspend', true, `id ${guest.id}, mode stop, until 2030-05-01 23:59:59`],
    ])
  })

  it('ends at the given time with an event, but without an audit entry', async () => {
    const stream = await EventStream.open(gateway.url, { 'x-api-key': gateway.adminKey })
    try {
      await stream.wait(({ event }) => event === 'ready', 'a beginning')
      await suspend({ mode: 'network', until: '2030-05-01' })
      const agent = gateway.fleet.agentOf('host-a')
      const { suspension } = agent.domain.context.store.get(guest.uuid)
      agent.update(guest.uuid, { suspension: { ...suspension!, untilMs: Date.now() - 1000 } })
      await agent.domain.policy.look()
      expect((await stream.type('guest.unsuspended')).data.data).to.include({
        id: guest.id,
        policy_blocked: false,
      })
      const { body } = await gateway.request('GET', `/audit-logs?target=${guest.name}`)
      expect((body.data as { action: string }[]).map(({ action }) => action)).to.deep.equal(['container.suspend'])
    } finally {
      stream.close()
    }
  })

  it('can be set and lifted for several containers in one request', async () => {
    const other = await gateway.fleet.addGuest()
    const containers = [guest.id, other.name]
    const batch = (body: object) => gateway.request('POST', '/batch-action', { body: { containers, ...body } })
    const done = await batch({ action: 'suspend', reason: 'abuse', mode: 'network' })
    expect([done.status, done.body.message, done.body.data]).to.deep.equal([202, 'suspend: 2 of 2 done', []])
    expect(await detail()).to.include({ suspended_mode: 'network' })
    expect(await codeOf(batch({ action: 'start' }))).to.deep.equal([403, 'policy_blocked'])
    expect(await codeOf(batch({ action: 'suspend' }))).to.deep.equal([400, 'missing_field'])
    expect((await batch({ action: 'unsuspend' })).body.message).to.equal('unsuspend: 2 of 2 done')
    expect(await detail()).to.include({ policy_blocked: false })
  })

  it('stops the container until the suspension ends', async () => {
    await gateway.fleet.work('host-a')
    await suspend()
    await waitFor(async () => (await detail())['status'] === 'stopped', { what: 'stopped' })
    await post('unsuspend')
    await waitFor(async () => (await detail())['status'] === 'running', { what: 'running' })
  })
})
