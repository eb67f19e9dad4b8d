import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { SubUserCalls, type Caller, type MadeSubUser } from '../../support/gateway/sub-user-calls.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

describe('the rights of a sub-user', function () {
  let gateway: TestGateway
  let calls: SubUserCalls
  let own: Guest
  let made: MadeSubUser
  let ask: Caller

  before(async () => {
    gateway = await startTestGateway({ hosts: ['host-a', 'host-b'] })
    calls = new SubUserCalls(gateway)
    await gateway.fleet.work('host-b')
  })
  after(() => gateway.close())
  beforeEach(async () => {
    own = await gateway.fleet.addGuest({ name: 'own' })
    await gateway.fleet.addGuest({ name: 'other' })
    made = await calls.make({ container_name: 'own', port_mapping_limit: 3 })
    ask = await calls.loggedIn(made)
  })
  afterEach(() => calls.clear())

  const change = (fields: object) => calls.change(made.id, fields)
  const answerOf = async (work: ReturnType<Caller>): Promise<unknown> => {
    const { status, body } = await work
    return body.code === undefined ? status : [status, body.code, body.details?.field]
  }
  const names = async (): Promise<string[]> =>
    ((await ask('GET', '/containers')).body.data as { name: string }[]).map(({ name }) => name)

  it('change immediately with its containers, permissions, images or expiry date', async () => {
    expect(await names()).to.deep.equal(['own'])
    await change({ container_names: ['other', 'own'] })
    expect(await names()).to.deep.equal(['own', 'other'])
    await change({ container_names: ['other'] })
    expect(await names()).to.deep.equal(['other'])
    expect(await answerOf(ask('GET', '/containers/own'))).to.deep.equal([404, 'not_found', undefined])
    await change({ permissions: ['container:read'] })
    expect(await answerOf(ask('POST', '/containers/other/start'))).to.deep.equal([403, 'insufficient_scope', undefined])
    await change({ container_names: [] })
    expect(await names()).to.deep.equal([])
    await change({ disabled: true })
    expect((await ask('GET', '/containers')).status).to.equal(401)
    await change({ disabled: false, container_names: ['own'] })
    expect(await names()).to.deep.equal(['own'])
    await change({ expires_at: '2001-01-01' })
    expect((await ask('GET', '/containers')).status).to.equal(401)
  })

  it('do not include a new container with the name of a deleted container', async () => {
    const { uuid } = await gateway.fleet.addGuest({ name: 'gone' }, 'host-b')
    await change({ container_names: ['gone'] })
    expect(await names()).to.deep.equal(['gone'])
    await gateway.request('DELETE', `/containers/${uuid}/delete`)
    await waitFor(() => gateway.fleet.view.findGuest(uuid) === undefined, { what: 'it is gone' })
    await gateway.fleet.addGuest({ name: 'gone' }, 'host-b')
    expect(await names()).to.deep.equal([])
    expect((await ask('GET', '/containers/gone')).status).to.equal(404)
  })

  it('include only tasks of its own containers', async () => {
    await gateway.request('POST', '/containers/other/stop')
    const { body } = await ask('POST', '/containers/own/stop')
    const tasks = (await ask('GET', '/tasks')).body.data as { task_id: string; user: string }[]
    expect(tasks.map(({ task_id, user }) => [task_id, user])).to.deep.equal([[body.data.task_id, made.username]])
  })

  describe('on port mappings', () => {
    const path = '/containers/own/port-mappings'
    const mappings = async () => (await gateway.request('GET', '/containers/own')).body.data.port_mappings as object[]

    it('allow as many mappings as its limit, on host ports that the gateway selects', async () => {
      const add = (body: object) => answerOf(ask('POST', path, { body }))
      expect(await add({ container_port: 80, host_port: 0, host_ip: '' })).to.equal(200)
      expect(await add({ container_port: 443, host_port: 25_000 })).to.deep.equal([
        403,
        'insufficient_scope',
        'host_port',
      ])
      expect(await add({ container_port: 443, host_ip: '192.0.2.10' })).to.deep.equal([
        403,
        'insufficient_scope',
        'host_ip',
      ])
      expect(await add({ container_port: 8000, container_port_end: 8001 })).to.deep.equal([
        403,
        'quota_exceeded',
        undefined,
      ])
      expect(await mappings()).to.have.length(2)
      const answers = await Promise.all([1, 2, 3, 4].map((port) => add({ container_port: port })))
      expect(answers.filter((answer) => answer === 200)).to.have.length(1)
      expect(await mappings()).to.have.length(3)
      const byAdmin = await gateway.request('POST', path, { body: { container_port: 9, host_port: 25_009 } })
      expect(byAdmin.status).to.equal(200)
      await change({ port_mapping_limit: 0 })
      expect(await add({ container_port: 10 })).to.deep.equal([403, 'quota_exceeded', undefined])
    })

    it('allow a search for free ports, but not at a given host address', async () => {
      expect((await ask('GET', '/containers/own/random-port')).status).to.equal(200)
      expect(await answerOf(ask('GET', '/containers/own/random-port?host_ip=192.0.2.10'))).to.deep.equal([
        403,
        'insufficient_scope',
        'host_ip',
      ])
    })

    it('allow the removal of a mapping and a change of its container port, but not of its host port', async () => {
      const put = (body: object) => answerOf(ask('PUT', `${path}/0`, { body }))
      const [before] = await mappings()
      expect(await put({ ...before, container_port: 2222, description: 'mine' })).to.equal(200)
      expect(await put({ host_port: 25_001 })).to.deep.equal([403, 'insufficient_scope', 'host_port'])
      expect(await mappings()).to.deep.equal([{ ...before, container_port: 2222, description: 'mine' }])
      expect(await answerOf(ask('PUT', `${path}/7`, { body: { container_port: 1 } }))).to.deep.equal([
        404,
        'not_found',
        undefined,
      ])
      expect((await ask('DELETE', `${path}/0`)).status).to.equal(200)
      expect(await mappings()).to.deep.equal([])
    })

    it('include only changes of the container port if the permission is restricted to such changes', async () => {
      await change({ permissions: ['container:read', 'container:network:inner'] })
      const put = (body: object) => answerOf(ask('PUT', `${path}/0`, { body }))
      const [before] = await mappings()
      expect(await put({ ...before, container_port: 2222 })).to.equal(200)
      expect(await put({ description: 'mine' })).to.deep.equal([403, 'insufficient_scope', 'description'])
      expect(await put({ protocol: 'udp' })).to.deep.equal([403, 'insufficient_scope', 'protocol'])
      expect(await mappings()).to.deep.equal([{ ...before, container_port: 2222 }])
      for (const [method, rest] of [
        ['POST', '/port-mappings'],
        ['DELETE', '/port-mappings/0'],
        ['GET', '/random-port'],
        ['GET', '/firewall'],
        ['PUT', '/firewall'],
      ] as const) {
        const body = method === 'GET' || method === 'DELETE' ? {} : { body: { container_port: 1 } }
        const answer = answerOf(ask(method, `/containers/own${rest}`, body))
        expect(await answer, `${method} ${rest}`).to.deep.equal([403, 'insufficient_scope', undefined])
      }
    })
  })

  it('include reinstallations with permitted images, and all other images appear not to exist', async () => {
    const ids = async (path: string): Promise<string[]> =>
      ((await ask('GET', path)).body.data as { id: string }[]).map(({ id }) => id)
    const reinstall = async (template_id: string) => {
      const headers = { 'x-request-id': 'the-same-for-all' }
      return ask('POST', '/containers/own/reinstall', { body: { template_id }, headers })
    }
    const available = [...gateway.fleet.view.templates()].filter(({ template }) => template.available)
    const [first = '', second = ''] = [...new Set(available.map(({ template }) => template.id))].sort()
    expect(first).not.to.equal('')
    const none = await reinstall('no-such-image')
    await change({ allowed_image_ids: [first] })
    expect(await ids('/images/enabled')).to.deep.equal([first])
    expect(await ids('/templates')).to.deep.equal([first])
    if (second) expect((await reinstall(second)).text).to.equal(none.text)
    await change({ allowed_image_ids: [] })
    expect((await reinstall(first)).text).to.equal(none.text)
    expect(await ids('/images/enabled')).to.deep.equal([])
    await change({ image_limit_configured: false })
    expect(await ids('/images/enabled')).to.include(first)
    expect((await reinstall(first)).status).to.equal(202)
  })

  it('include snapshots within the quota, but not changes of the quota', async () => {
    await gateway.fleet.addGuest({ name: 'busy' }, 'host-b')
    await change({ container_names: ['busy'] })
    const path = '/containers/busy/snapshots'
    const limit = { body: { snapshot_limit: 1 } }
    await gateway.request('PUT', `${path}/quota`, limit)
    expect((await ask('POST', path, { body: {} })).status).to.equal(201)
    expect(await answerOf(ask('POST', path, { body: {} }))).to.deep.equal([403, 'quota_exceeded', undefined])
    expect(await answerOf(ask('PUT', `${path}/quota`, limit))).to.deep.equal([403, 'insufficient_scope', undefined])
  })

  it('allow a sub-user to read a suspended container, but not to change it', async () => {
    await gateway.request('PUT', '/containers/own/expiry', { body: { expires_at: '2001-01-01' } })
    await waitFor(() => gateway.fleet.view.findGuest(own.uuid)!.guest.policyBlocked, {
      what: 'it is blocked',
    })
    const routes = gateway.api.routes.filter(({ bound, subUser }) => bound === 'guest' && subUser !== 'refused')
    let writes = 0
    for (const { method, path } of routes) {
      const real = path.replace('{id}', 'own').replaceAll(/\{\w+\}/g, '0')
      const body = method === 'GET' || method === 'DELETE' ? {} : { body: bodies[path] ?? {} }
      const { status, body: reply } = await ask(method, real, body)
      const label = `${method} ${path}: ${status}`
      // Only virtual machines have a screen.
      if (method === 'GET') expect(status, label).to.equal(path.endsWith('/screenshot') ? 400 : 200)
      else expect([status, reply.code], label).to.deep.equal([403, 'policy_blocked'])
      if (method !== 'GET') writes++
    }
    expect(writes).to.be.greaterThan(10)
    for (const path of ['/ssh-ticket', '/vnc-ticket']) {
      const { status, body } = await ask('POST', path, { body: { container_name: 'own' } })
      expect([status, body.code], path).to.deep.equal([403, 'policy_blocked'])
    }
    expect((await ask('GET', '/containers')).body.data[0].policy_blocked).to.equal(true)
  })
})

/** Valid bodies for these routes, so that a request is not refused for its body. */
const bodies: Readonly<Record<string, object>> = {
  '/containers/{id}/reinstall': { template_id: 'debian-12' },
  '/containers/{id}/boot': { mode: 'disk' },
  '/containers/{id}/firewall': { enabled: false },
  '/containers/{id}/port-mappings': { container_port: 80 },
  '/containers/{id}/port-mappings/{index}': { container_port: 80 },
  '/containers/{id}/snapshots/schedule': { enabled: false },
}
