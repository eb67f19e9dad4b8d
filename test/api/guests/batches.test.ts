import { expect } from 'chai'
import type { Body } from '../../support/body.js'
import type { AgentClient } from '../../../gateway/fleet/agent-contract.js'
import { BerthError } from '../../../shared/errors.js'
import { startTestGateway, type Reply, type TestGateway } from '../../support/gateway/test-gateway.js'

const template = { template_id: 'debian-12', ram_mb: 64, vcpu: 0.1, disk_gb: 1, start: false }

describe('requests for several guests (batches)', () => {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway()
  })
  after(() => gateway.close())

  const create = (body: object, headers = {}): Promise<Reply> =>
    gateway.request('POST', '/batch-create', { body, headers })
  const act = (body: object, key?: string): Promise<Reply> =>
    gateway.request('POST', '/batch-action', { body, ...(key ? { key } : {}) })
  const names = async (): Promise<string[]> => {
    const { body } = await gateway.request('GET', '/containers/list')
    return (body.data as { name: string }[]).map(({ name }) => name)
  }
  /** Lets the agent run its operations, and checks that the given tasks have ended. */
  const ended = async (taskIds: string[]): Promise<void> => {
    await gateway.fleet.work('host-a')
    for (const id of taskIds) {
      const { body } = await gateway.request('GET', `/tasks/${id}`)
      expect(body.data.finished_at, id).not.to.equal('')
    }
  }

  it('create all listed guests, and return the task, the port and the password of each guest', async () => {
    const { status, body } = await create({
      containers: [
        { ...template, name: 'each-a' },
        { ...template, name: 'each-b', ram_mb: 128 },
      ],
    })
    expect(status).to.equal(202)
    expect(body.failed).to.deep.equal([])
    const rows = body.containers as { name: string; task_id: string; ssh_password: string }[]
    expect(rows.map(({ name }) => name)).to.deep.equal(['each-a', 'each-b'])
    expect(rows.map(({ task_id }) => task_id)).to.deep.equal(body.data)
    expect(rows.every(({ ssh_password }) => ssh_password.length >= 8)).to.equal(true)
    expect(await names()).to.include.members(['each-a', 'each-b'])
  })

  it('create the requested number of guests with numbered names, and create no further guests if they are repeated', async () => {
    const headers = { 'idempotency-key': 'many-1' }
    const { body } = await create({ ...template, name: 'many', count: 3 }, headers)
    expect(body.data).to.have.length(3)
    expect((await create({ ...template, name: 'many', count: 3 }, headers)).body.data).to.deep.equal(body.data)
    expect((await names()).filter((name) => name.startsWith('many-')).sort()).to.deep.equal([
      'many-1',
      'many-2',
      'many-3',
    ])
  })

  it('name the host that lacks resources only to callers that may read hosts, like the creation of one guest', async () => {
    const containers = [{ ...template, name: 'too-large', ram_mb: 900_000 }]
    const ask = async (path: string, body: object, scopes: string[]): Promise<Body> =>
      (await gateway.request('POST', path, { body, key: await gateway.makeKey({ scopes }) })).body
    for (const [path, body] of [
      ['/batch-create', { containers }],
      ['/containers', containers[0]!],
    ] as const) {
      const full = await ask(path, body, ['container:create', 'host:read'])
      expect(full.details).to.include({ rule: 'host_ram' })
      expect(full.message).to.match(/900000 MiB of memory are requested, host-a has [\d.]+ left$/)
      const short = await ask(path, body, ['container:create'])
      expect(short.code).to.equal('resource_exhausted')
      expect(short.message).to.match(/(^|: )no host has enough free resources for the container$/)
      expect(short.details ?? {}).not.to.have.any.keys('rule', 'values')
    }
  })

  it('create nothing if one of the guests is invalid, and name this guest in the error', async () => {
    const before = await names()
    const good = { ...template, name: 'none-1' }
    for (const [bodies, code, field] of [
      [[good, { ...good, name: '9' }], 'invalid_field', 'containers[1].name'],
      [[good, { ...good, name: 'none-2', template_id: 'nothing' }], 'invalid_field', 'containers[1].template_id'],
      [[good, { ...good, name: 'NONE-1' }], 'invalid_field', 'containers'],
      [[good, { ...good, name: 'each-a' }], 'name_conflict', undefined],
    ] as const) {
      const { body } = await create({ containers: bodies })
      expect([body.code, body.details?.field]).to.deep.equal([code, field])
    }
    expect((await create({ containers: [] })).status).to.equal(400)
    expect((await create({})).body.code).to.equal('missing_field')
    expect((await create({ ...template, name: 'x' })).body.details.field).to.equal('count')
    expect((await create({ ...template, name: 'x', count: 101 })).status).to.equal(400)
    expect(await names()).to.deep.equal(before)
  })

  it('create nothing if the guests exceed the capacity of the hosts, and name the first guest that does not fit', async () => {
    const before = await names()
    // The guests may have up to four times the host's 32 GiB of memory in total, so four of these guests fit.
    const large = { ...template, ram_mb: 30_000 }
    const all = ['room-a', 'room-b', 'room-c', 'room-d']
    const bodies = [...all, 'room-e'].map((name) => ({ ...large, name }))
    const { status, body } = await create({ containers: bodies })
    expect([status, body.code, body.details?.field]).to.deep.equal([409, 'resource_exhausted', 'containers[4]'])
    expect(await names()).to.deep.equal(before)
    const twice = await create({ containers: bodies }, { 'idempotency-key': 'room-1' })
    expect(twice.body.code).to.equal('resource_exhausted')
    // The rejected batches left no reservations.
    const fit = await create({ containers: bodies.slice(0, 4) })
    expect([fit.status, fit.body.data?.length], fit.text).to.deep.equal([202, 4])
    await ended(fit.body.data as string[])
    const gone = await act({ action: 'delete', containers: all })
    await ended(gone.body.data as string[])
  })

  it('act only once on each guest, even if the request names it by id, uuid and name', async () => {
    const { body: made } = await create({ ...template, name: 'act', count: 3 })
    await ended(made.data as string[])
    const [first, second, third] = made.containers as { id: number; uuid: string; name: string }[]
    const { status, body } = await act({
      action: 'delete',
      containers: [first!.id, second!.uuid, third!.name, String(first!.id)],
    })
    expect(status).to.equal(202)
    expect(body.data).to.have.length(3)
    await ended(body.data as string[])
    expect((await names()).filter((name) => name.startsWith('act-'))).to.deep.equal([])
  })

  it('change nothing if one container does not exist or is hidden from the caller', async () => {
    const { body: made } = await create({ ...template, name: 'seen', count: 2 })
    const [own, other] = made.containers as { uuid: string; name: string }[]
    await ended(made.data as string[])
    const key = await gateway.makeKey({ scopes: ['container:delete'], container_uuids: [own!.uuid] })
    const hidden = await act({ action: 'delete', containers: [own!.name, other!.name] }, key)
    const missing = await act({ action: 'delete', containers: [own!.name, 'nobody'] }, key)
    expect([hidden.status, { ...hidden.body, request_id: '' }]).to.deep.equal([
      404,
      { ...missing.body, request_id: '' },
    ])
    expect(await names()).to.include.members(['seen-1', 'seen-2'])
    expect((await act({ action: 'stop', containers: [own!.name] }, key)).body.code).to.equal('insufficient_scope')
    expect((await act({ action: 'delete', containers: [own!.name] }, key)).status).to.equal(202)
  })

  it('report each guest that its host rejects, and fail only if all guests are rejected', async () => {
    const { body: made } = await create({ ...template, name: 'late', count: 2 })
    await ended(made.data as string[])
    await gateway.request('PUT', '/containers/late-1/expiry', { body: { expires_at: '2020-01-01' } })
    const { status, body } = await act({ action: 'start', containers: ['late-1', 'late-2'] })
    expect([status, body.data.length]).to.deep.equal([202, 1])
    expect(body.failed).to.have.length(1)
    expect(body.failed[0]).to.include({ name: 'late-1', code: 'policy_blocked' })
    const alone = await act({ action: 'start', containers: ['late-1'] })
    expect([alone.status, alone.body.code]).to.deep.equal([403, 'policy_blocked'])
    expect((await act({ action: 'explode', containers: ['late-2'] })).body.details.field).to.equal('action')
  })

  it('act only on the remaining guests if they are repeated after a temporary failure', async () => {
    const { body: made } = await create({ ...template, name: 'again', count: 2 })
    await ended(made.data as string[])
    const headers = { 'idempotency-key': 'again-1' }
    const request = { body: { action: 'delete', containers: ['again-1', 'again-2'] }, headers }
    const plain = gateway.fleet.twist
    gateway.fleet.twist = failingSecond(() => new BerthError('unavailable', 'host_offline', 'away'))
    const first = await gateway.request('POST', '/batch-action', request)
    gateway.fleet.twist = plain
    expect([first.status, first.body.data.length]).to.deep.equal([202, 1])
    expect(first.body.failed).to.deep.equal([{ name: 'again-2', code: 'host_offline', message: 'away' }])
    await ended(first.body.data as string[])
    const second = await gateway.request('POST', '/batch-action', request)
    expect([second.status, second.body.failed]).to.deep.equal([202, []])
    expect(second.body.data).to.include(first.body.data[0]).and.to.have.length(2)
    await ended(second.body.data as string[])
    expect((await names()).filter((name) => name.startsWith('again-'))).to.deep.equal([])
    const { body: log } = await gateway.request('GET', '/audit-logs?action=container.batch_action')
    const ids = (made.containers as { id: number }[]).map(({ id }) => id).join(' ')
    expect((log.data as { detail: string }[]).at(1)?.detail).to.contain(`ids ${ids}, failed again-2: host_offline`)
  })

  it('return no details of internal failures', async () => {
    const { body: made } = await create({ ...template, name: 'inside', count: 2 })
    await ended(made.data as string[])
    const plain = gateway.fleet.twist
    gateway.fleet.twist = failingSecond(() => new Error('internal secret'))
    const { body } = await act({ action: 'start', containers: ['inside-1', 'inside-2'] })
    gateway.fleet.twist = plain
    expect(body.failed[0]).to.include({ name: 'inside-2', code: 'internal_error' })
    expect(body.failed[0].message).to.match(/^internal error/)
  })

  it('create only the missing guests if they are repeated after their tasks were removed', async () => {
    const headers = { 'idempotency-key': 'forgotten-1' }
    const body = { ...template, name: 'forgotten', count: 2 }
    const plain = gateway.fleet.reached
    let calls = 0
    gateway.fleet.reached = (...given) =>
      ++calls === 2 ? Promise.reject(new BerthError('timeout', 'agent_timeout', 'late')) : plain(...given)
    const first = await create(body, headers)
    gateway.fleet.reached = plain
    expect(first.body.failed).to.have.length(1)
    await gateway.fleet.work('host-a')
    await gateway.request('DELETE', '/tasks')
    const second = await create(body, headers)
    expect([second.status, second.body.failed], second.text).to.deep.equal([202, []])
  })

  it('are refused if several guests request the same address or host port', async () => {
    for (const more of [
      { public_ipv4s: ['203.0.113.7'] },
      { ipv6_addresses: ['2001:db8::7'] },
      { nat_port_mappings: [{ container_port: 80, host_port: 20080 }] },
    ]) {
      const { status, body } = await create({ ...template, name: 'twice', count: 2, ...more })
      expect([status, body.code], JSON.stringify(more)).to.deep.equal([400, 'invalid_field'])
    }
  })

  it('accept the guest names as one text, separated by commas and blanks', async () => {
    const { body: made } = await create({ ...template, name: 'text', count: 2 })
    await ended(made.data as string[])
    expect((await act({ action: 'stop', containers: 'text-1, text-2' })).status).to.equal(202)
  })
})

/** A client whose second submitted operation fails. */
function failingSecond(error: () => Error): (client: AgentClient) => AgentClient {
  let orders = 0
  return (client) => ({
    ...client,
    operations: {
      ...client.operations,
      submitOperation: (request) =>
        ++orders === 2 ? Promise.reject(error()) : client.operations.submitOperation(request),
    },
  })
}
