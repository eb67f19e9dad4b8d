import { expect } from 'chai'
import { unlimitedTraffic } from '../../../agent/guests/record/record.js'
import type { AgentClient } from '../../../gateway/fleet/agent-contract.js'
import { BerthError } from '../../../shared/errors.js'
import { scopeCatalogue } from '../../../gateway/access/scopes.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

/** All settings of a container: a valid request, the scope that it requires, and its action in the audit log. */
const settings: readonly {
  readonly method: string
  readonly path: string
  readonly scope: string
  readonly body?: object
  /** Action in the audit log. Requests that only read have no action. */
  readonly action?: string
}[] = [
  {
    method: 'POST',
    path: '/port-mappings',
    scope: 'container:network',
    body: { container_port: 80 },
    action: 'container.port_mapping_add',
  },
  {
    method: 'PUT',
    path: '/port-mappings/0',
    scope: 'container:network',
    body: { description: 'x' },
    action: 'container.port_mapping_update',
  },
  { method: 'DELETE', path: '/port-mappings/0', scope: 'container:network', action: 'container.port_mapping_remove' },
  { method: 'GET', path: '/random-port', scope: 'container:network' },
  { method: 'GET', path: '/firewall', scope: 'container:network' },
  {
    method: 'PUT',
    path: '/firewall',
    scope: 'container:network',
    action: 'container.firewall',
    body: { enabled: true, default_action: 'DROP', rules: [] },
  },
  { method: 'GET', path: '/traffic', scope: 'container:read' },
  { method: 'POST', path: '/traffic-reset', scope: 'container:traffic', action: 'container.traffic_reset' },
  {
    method: 'PUT',
    path: '/traffic-limit',
    scope: 'container:traffic',
    body: { monthly_traffic_gb: 5 },
    action: 'container.traffic_limit',
  },
  {
    method: 'PUT',
    path: '/resource-limit',
    scope: 'container:resize',
    body: { ram_mb: 600 },
    action: 'container.resource_limit',
  },
  {
    method: 'PUT',
    path: '/expiry',
    scope: 'container:resize',
    body: { expires_at: '2031-01-01' },
    action: 'container.expiry',
  },
  { method: 'POST', path: '/ipv6', scope: 'ipv6:assign', body: { ipv6_count: 1 }, action: 'container.ipv6' },
]
const writes = settings.filter(({ action }) => action !== undefined)

describe('the settings of a container', function () {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway({ hosts: ['host-a', 'host-b'] })
    const prefix = { prefix: '2001:db8::', prefix_len: 64 }
    expect((await gateway.request('PUT', '/routing', { body: { ipv6_prefixes: [prefix] } })).status).to.equal(200)
  })
  after(() => gateway.close())

  const send = (
    { method, path, body }: (typeof settings)[number],
    ref: string | number,
    options: { key?: string; headers?: Record<string, string>; prefix?: string } = {},
  ) => {
    const { prefix = '/api/v1', ...rest } = options
    return gateway.request(method, `${prefix}/containers/${ref}${path}`, {
      ...(body ? { body } : {}),
      ...rest,
    })
  }

  it('are all in the table of this test, with the scope and the audit action of their routes', () => {
    const routes = gateway.api.routes.filter(
      ({ tag, conditional, statuses }) =>
        (conditional && !statuses?.includes(202)) || ['Ports', 'Firewall', 'Traffic'].includes(tag),
    )
    // Tags of settings that have tests in other files.
    const elsewhere = ['Snapshots', 'Backups', 'Security']
    const ours = routes.filter(
      ({ tag, path }) =>
        !elsewhere.includes(tag) && !/\/(reset-password|suspend|unsuspend|undelete|devices|standby|\{id\})$/.test(path),
    )
    const inTable = ours.map(({ method, path, scope, audit }) => [method, path, scope, audit])
    const here = settings.map(({ method, path, scope, action }) => [
      method,
      `/containers/{id}${path.replace('/0', '/{index}')}`,
      scope,
      action,
    ])
    expect(inTable).to.have.deep.members(here)
  })

  it('accept the id, the uuid or the name of the container, under both path prefixes', async () => {
    for (const setting of settings)
      for (const prefix of ['/api/v1', '/api']) {
        const guest = await gateway.fleet.addGuest()
        for (const ref of [guest.id, guest.uuid, guest.name].slice(0, setting.method === 'DELETE' ? 1 : 3)) {
          const { status, text } = await send(setting, ref, { prefix })
          expect(status, `${setting.method} ${setting.path} ${text}`).to.equal(200)
        }
      }
  })

  it('can be changed by a key with the scope of the route, but not by a key with only the other scopes', async () => {
    for (const setting of settings) {
      const guest = await gateway.fleet.addGuest()
      const others = scopeCatalogue.filter((scope) => scope !== setting.scope)
      const without = await send(setting, guest.id, { key: await gateway.makeKey({ scopes: others }) })
      expect([without.status, without.body.code], setting.path).to.deep.equal([403, 'insufficient_scope'])
      const alone = await send(setting, guest.id, { key: await gateway.makeKey({ scopes: [setting.scope] }) })
      expect(alone.status, setting.path).to.equal(200)
    }
  })

  it('have the same answer for a hidden container as for a missing container', async () => {
    const [mine, theirs] = [await gateway.fleet.addGuest(), await gateway.fleet.addGuest()]
    const key = await gateway.makeKey({ scopes: ['*'], container_uuids: [mine.uuid] })
    const before = (await gateway.request('GET', `/containers/${theirs.id}`)).text
    for (const setting of settings) {
      const refs = [theirs.id, theirs.uuid, theirs.name, 999_999, 'no-such', crypto.randomUUID()]
      const answers = await Promise.all(
        refs.flatMap((ref) =>
          ['/api/v1', '/api'].map(async (prefix) => {
            const headers = { 'if-match': '"1.x"' }
            for (const options of [
              { key, prefix },
              { key, prefix, headers },
            ]) {
              const { status, text, headers: sent } = await send(setting, ref, options)
              expect(status, `${setting.path} ${ref}`).to.equal(404)
              if (!('headers' in options)) return text.replace(sent['x-request-id'] ?? '', '')
            }
            return ''
          }),
        ),
      )
      expect(new Set(answers).size, `${setting.method} ${setting.path}`).to.equal(1)
      expect((await send(setting, mine.id, { key })).status, setting.path).to.equal(200)
    }
    expect((await gateway.request('GET', `/containers/${theirs.id}`)).text).to.equal(before)
  })

  it('write an audit entry with the container’s name, even if the change is rejected', async () => {
    for (const setting of writes) {
      const guest = await gateway.fleet.addGuest()
      await send(setting, guest.id)
      await send(setting, guest.id, { headers: { 'if-match': '"1.x"' } })
      const { body } = await gateway.request('GET', `/audit-logs?target=${guest.name}`)
      const entries = body.data as { action: string; success: boolean; detail: string; user: string }[]
      expect(entries.map(({ action, success }) => [action, success])).to.deep.equal([
        [setting.action, false],
        [setting.action, true],
      ])
      expect(entries[1]).to.include({ user: 'api:admin' })
      expect(entries[0]?.detail).to.contain('precondition_failed')
      expect(entries[1]?.detail).to.match(new RegExp(`^id ${guest.id}, .`))
    }
  })

  it('change only if If-Match contains the present ETag', async () => {
    for (const setting of writes) {
      const guest = await (setting.path === '/traffic-reset' ? addThrottled() : gateway.fleet.addGuest())
      const read = async () => (await gateway.request('GET', `/containers/${guest.id}`)).headers['etag'] ?? ''
      const seen = await read()
      const ifMatch = (value: string) => send(setting, guest.id, { headers: { 'if-match': value } })
      for (const value of ['W/"1.x"', '"x"', seen.replaceAll('"', ''), '"1.x", "2.x"', '"0.x"', ',']) {
        const { status, body } = await ifMatch(value)
        expect([status, body.code], `${setting.path} ${value}`).to.deep.equal([412, 'precondition_failed'])
      }
      expect(await read(), setting.path).to.equal(seen)
      // An ETag with W/ is accepted, because a compressing proxy adds it.
      expect((await ifMatch(`"1.x", W/${seen}`)).status, setting.path).to.equal(200)
      expect((await ifMatch(seen)).status, `${setting.path} again`).to.equal(412)
      expect(await read(), setting.path).not.to.equal(seen)
    }
    const guest = await gateway.fleet.addGuest()
    expect((await send(writes[0]!, guest.id, { headers: { 'if-match': '*' } })).status).to.equal(200)
  })

  /** Adds a guest that is throttled, because its quota is used up. A traffic reset therefore changes its revision. */
  async function addThrottled(): Promise<{ id: number; uuid: string }> {
    const traffic = { ...unlimitedTraffic, monthlyGb: 1, action: 'throttle' as const }
    const guest = await gateway.fleet.addGuest({ traffic })
    await gateway.fleet.addTraffic(guest.uuid, { rxBytes: 2e9, txBytes: 0 })
    return guest
  }

  it('accept one of several concurrent changes with the same If-Match, and keep all accepted changes', async () => {
    const guest = await gateway.fleet.addGuest()
    for (let round = 0; round < 5; round++) {
      const { headers } = await gateway.request('GET', `/containers/${guest.id}`)
      const replies = await Promise.all(
        Array.from({ length: 8 }, () => send(writes[0]!, guest.id, { headers: { 'if-match': headers['etag'] ?? '' } })),
      )
      expect(replies.map(({ status }) => status).sort()).to.deep.equal([200, ...Array<number>(7).fill(412)])
    }
    const { body } = await gateway.request('GET', `/containers/${guest.id}`)
    expect(body.data.port_mappings).to.have.length(6)
  })

  it('are refused with “host_offline” while the host is offline', async () => {
    const guest = await gateway.fleet.addGuest({}, 'host-b')
    await gateway.fleet.setHostState('host-b', 'offline')
    for (const setting of settings) {
      const { status, body } = await send(setting, guest.id)
      expect([status, body.code], setting.path).to.deep.equal([503, 'host_offline'])
    }
    await gateway.fleet.setHostState('host-b', 'online')
  })

  it('return the first answer if a POST is repeated with the same Idempotency-Key', async () => {
    const guest = await gateway.fleet.addGuest()
    const headers = { 'idempotency-key': 'one-mapping' }
    const [first, again] = [
      await send(writes[0]!, guest.id, { headers }),
      await send(writes[0]!, guest.id, { headers }),
    ]
    expect(again.text).to.equal(first.text)
    const { body } = await gateway.request('GET', `/containers/${guest.id}`)
    expect(body.data.port_mappings).to.have.length(2)
  })

  it('do not change twice if a request is repeated because the agent’s answer was lost', async () => {
    const guest = await gateway.fleet.addGuest()
    const headers = { 'idempotency-key': 'lost-mapping' }
    gateway.fleet.twist = losingAnswers
    expect((await send(writes[0]!, guest.id, { headers })).status).to.equal(504)
    gateway.fleet.twist = (client) => client
    const again = await send(writes[0]!, guest.id, { headers })
    expect(again.status).to.equal(200)
    const { body } = await gateway.request('GET', `/containers/${guest.id}`)
    expect(body.data.port_mappings).to.have.length(2)
  })

  it('ignore fields that are named like members of Object.prototype', async () => {
    const fields = Object.getOwnPropertyNames(Object.prototype)
    expect(fields).to.include('__proto__').and.to.include('constructor')
    for (const setting of writes.filter(({ method }) => method !== 'DELETE'))
      for (const valueOf of [() => 'x', (field: string) => ({ [field]: 1 })]) {
        const { name } = await gateway.fleet.addGuest()
        const body = {
          ...setting.body,
          ...Object.fromEntries(fields.map((field) => [field, valueOf(field)])),
        }
        const { status, text } = await send({ ...setting, body }, name)
        expect(status, `${setting.path} ${JSON.stringify(body)} ${text}`).to.equal(200)
        const { body: log } = await gateway.request('GET', `/audit-logs?target=${name}`)
        for (const field of fields) expect(log.data[0].detail, setting.path).not.to.contain(field)
      }
  })
})

/** A client that lets the agent change a setting, and then fails as if its answer had been lost. */
function losingAnswers(client: AgentClient): AgentClient {
  const changeSetting: AgentClient['settings']['changeSetting'] = async (request) => {
    await client.settings.changeSetting(request)
    throw new BerthError('timeout', 'agent_timeout', 'no answer')
  }
  return { ...client, settings: { ...client.settings, changeSetting } }
}
