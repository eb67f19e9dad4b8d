import { randomUUID } from 'node:crypto'
import { expect } from 'chai'
import { BerthError } from '../../../shared/errors.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

interface Usage {
  memory_usage_bytes: number
}

const create = { name: 'web-1', template_id: 'debian-12', vcpu: 0.5, ram_mb: 256, disk_gb: 5 }

describe('the container API', () => {
  let gateway: TestGateway
  before(async () => {
    gateway = await startTestGateway({ hosts: ['host-a', 'host-b'] })
  })
  after(() => gateway.close())

  it('returns the port and the password of a new container, and lists it immediately', async () => {
    const { status, body } = await gateway.request('POST', '/containers', { body: create })
    expect(status).to.equal(202)
    expect(body.data).to.include({ name: 'web-1', status: 'creating', action: 'create' })
    expect(body.data.ssh_port).to.be.within(20_000, 59_999)
    expect(body.data.ssh_password).to.match(/^\S{8,}$/)
    const detail = (await gateway.request('GET', '/containers/web-1')).body.data
    expect(detail).to.include({ id: body.data.id, vcpu: 0.5, ram_mb: 256, disk_gb: 5, status: 'creating' })
    expect(detail.ssh_password).to.equal('********')
    expect(detail.port_mappings).to.deep.equal([
      { container_port: 22, host_port: body.data.ssh_port as number, protocol: 'tcp', description: 'SSH' },
    ])
    const task = (await gateway.request('GET', `/tasks/${body.data.task_id}`)).body.data
    expect(task).to.include({
      action: 'create',
      container_name: 'web-1',
      status: 'pending',
      user: 'api:admin',
    })
  })

  it('finds a container by id, uuid and name, under both path prefixes', async () => {
    const guest = await gateway.fleet.addGuest({ name: 'Found.me_1' })
    for (const ref of [guest.id, guest.uuid, guest.name])
      for (const prefix of ['/api/v1', '/api'])
        expect((await gateway.request('GET', `${prefix}/containers/${ref}`)).body.data.uuid).to.equal(guest.uuid)
  })

  /** Other spellings of a number, which some programming languages would parse as the container's id. */
  for (const [what, refOf] of [
    ['with a leading zero', (id) => `0${id}`],
    ['with a sign', (id) => `+${id}`],
    ['with an encoded sign', (id) => `%2B${id}`],
    ['with a fraction', (id) => `${id}.0`],
    ['with an exponent', (id) => `${id}e0`],
    ['with a leading space', (id) => `%20${id}`],
    ['with a trailing space', (id) => `${id}%20`],
    ['in hexadecimal form', (id) => `0x${id.toString(16)}`],
    ['with Arabic digits', (id) => encodeURIComponent(String.fromCodePoint(0x660 + (id % 10)))],
    ['with a trailing null character', (id) => `${id}%00`],
  ] as readonly (readonly [string, (id: number) => string])[])
    it(`does not find a container by its id ${what}`, async () => {
      const { id } = await gateway.fleet.addGuest({ status: 'running' })
      const path = `/containers/${refOf(id)}`
      for (const [method, asked] of [
        ['GET', path],
        ['POST', `${path}/stop`],
        ['DELETE', `${path}/delete`],
      ] as const) {
        const { status, text } = await gateway.request(method, asked)
        expect(status, `${method} ${asked}: ${text}`).to.be.oneOf([400, 404])
      }
      expect((await gateway.request('GET', `/containers/${id}`)).body.data.status).to.equal('running')
    })

  it('lists all containers in the full or the short form, and in the short form for POST with the body []', async () => {
    const full = await gateway.request('GET', '/containers')
    const count = full.body.data.length as number
    expect(full.headers['x-total-count']).to.equal(String(count))
    const short = await gateway.request('GET', '/containers/list')
    expect(Object.keys(short.body.data[0] as object)).to.deep.equal(['id', 'uuid', 'name', 'status', 'ip'])
    const posted = await gateway.request('POST', '/containers/list', { body: [] })
    expect(posted.body.data).to.deep.equal(short.body.data).and.have.length(count)
  })

  it('returns the list in pages, sorted and filtered', async () => {
    const names = Array.from({ length: 5 }, (_, i) => `page-${i}`)
    for (const name of names) await gateway.fleet.addGuest({ name, templateId: 'paged' })
    const { body, headers } = await gateway.request('GET', '/containers?template=paged&sort=-name&page=2&page_size=2')
    const rows = body.data as { name: string }[]
    expect(rows.map((row) => row.name)).to.deep.equal([names[2], names[1]])
    expect(headers['x-total-count']).to.equal('5')
    const refused = await gateway.request('GET', '/containers?sort=secret')
    expect([refused.status, refused.body.details.field]).to.deep.equal([400, 'sort'])
    expect((await gateway.request('GET', '/containers?page=0')).status).to.equal(400)
    expect((await gateway.request('GET', '/containers?page=1&page=2')).status).to.equal(400)
    expect((await gateway.request('GET', '/containers?other=1&page=')).status).to.equal(200)
  })

  it('answers 304 to a request with an ETag while the answer is unchanged', async () => {
    for (const path of ['/containers', '/containers/list', '/containers/web-1', '/tasks', '/dashboard']) {
      const { headers } = await gateway.request('GET', path)
      const again = { headers: { 'if-none-match': headers['etag'] ?? '' } }
      expect((await gateway.request('GET', path, again)).status, path).to.equal(304)
    }
    const { headers } = await gateway.request('GET', '/containers')
    await gateway.fleet.addGuest()
    const later = { headers: { 'if-none-match': headers['etag'] ?? '' } }
    expect((await gateway.request('GET', '/containers', later)).status).to.equal(200)
  })

  it('starts a task for each power action and for a deletion', async () => {
    const guest = await gateway.fleet.addGuest({ name: 'act.on-me' })
    for (const action of ['start', 'stop', 'restart']) {
      const { status, body } = await gateway.request('POST', `/containers/${guest.name}/${action}`, {
        body: [],
      })
      expect(status).to.equal(202)
      expect(body.data).to.include({ container_name: guest.name, status: 'pending', action })
    }
    const unsure = await gateway.request('POST', `/containers/${guest.id}/stop`, {
      body: { force: 'perhaps' },
    })
    expect([unsure.status, unsure.body.code]).to.deep.equal([400, 'invalid_field'])
    const { status, body } = await gateway.request('DELETE', `/containers/${guest.id}/delete`)
    expect([status, body.data.action]).to.deep.equal([202, 'delete'])
    expect((await gateway.request('DELETE', `/containers/${guest.id}`)).status).to.equal(405)
  })

  it('returns the present usage of a container', async () => {
    const { id } = await gateway.fleet.addGuest()
    const read = async () => (await gateway.request('GET', `/containers/${id}/usage`)).body.data as Usage
    await waitFor(async () => (await read()).memory_usage_bytes > 0, { what: 'a sample' })
    expect(await read()).to.include({ cpu_usage_pct: 0, memory_usage_bytes: 1048576, load15: 0 })
  })

  it('shows a container without a warm standby as an empty row, and refuses unsuitable standbys', async () => {
    const { id } = await gateway.fleet.addGuest()
    const ask = (method: string, body?: object) =>
      gateway.request(method, `/containers/${id}/standby`, body ? { body } : {})
    expect((await ask('GET')).body.data).to.deep.equal({
      host_id: '',
      interval_minutes: 0,
      bandwidth_mbps: 0,
      last_increment_at: '',
      age_seconds: -1,
      sent_bytes: 0,
      last_attempt_at: '',
      failures: 0,
      error: '',
    })
    const own = (await gateway.request('GET', `/containers/${id}`)).body.data.host_id as string
    for (const [method, body, status, code] of [
      ['DELETE', undefined, 404, 'not_found'],
      ['PUT', { host_id: own }, 400, 'invalid_field'],
      ['PUT', { host_id: 'host-b', interval_minutes: 0 }, 400, 'invalid_field'],
      ['PUT', { host_id: 'nowhere' }, 404, 'not_found'],
    ] as const) {
      const refused = await ask(method, body)
      expect([refused.status, refused.body.code], JSON.stringify(body)).to.deep.equal([status, code])
    }
  })

  it('shows the recorded standby of a container whose host does not have it, and removes it', async () => {
    const { id, uuid } = await gateway.fleet.addGuest()
    const ask = (method: string, body?: object) =>
      gateway.request(method, `/containers/${id}/standby`, body ? { body } : {})
    expect((await ask('PUT', { host_id: 'host-b', interval_minutes: 9 })).status).to.equal(200)
    // As after a move. A gateway does not set the standby of a broken guest.
    gateway.fleet.agentOf('host-a').update(uuid, { standby: null, status: 'error' })
    await gateway.fleet.caughtUp('host-a')
    const row = (await ask('GET')).body.data
    expect(row).to.include({ host_id: 'host-b', interval_minutes: 9, age_seconds: -1 })
    expect(row.error).to.include('has moved')
    gateway.fleet.agentOf('host-a').update(uuid, { status: 'running' })
    await gateway.fleet.caughtUp('host-a')
    expect((await ask('DELETE')).status).to.equal(200)
    expect((await ask('GET')).body.data).to.include({ host_id: '', error: '' })
    expect((await ask('DELETE')).status).to.equal(404)
  })

  it('keeps the record of a standby if its removal fails', async () => {
    const { id } = await gateway.fleet.addGuest()
    const ask = (method: string, body?: object, headers = {}) =>
      gateway.request(method, `/containers/${id}/standby`, { ...(body && { body }), headers })
    expect((await ask('PUT', { host_id: 'host-b' })).status).to.equal(200)
    const readRecord = () =>
      gateway.fleet.relocation.standbys.findRecorded(gateway.fleet.view.findGuest(String(id))!.guest.uuid)
    const before = await readRecord()
    expect((await ask('DELETE', undefined, { 'if-match': '"1"' })).status).to.equal(412)
    expect(await readRecord()).to.deep.equal(before)
    expect((await ask('DELETE')).status).to.equal(200)
    expect(await readRecord()).to.equal(undefined)
  })

  it('shows guests of an offline host as unknown, and refuses actions on them', async () => {
    const guest = await gateway.fleet.addGuest({ status: 'running' }, 'host-b')
    await gateway.fleet.setHostState('host-b', 'offline')
    expect((await gateway.request('GET', `/containers/${guest.id}`)).body.data.status).to.equal('unknown')
    const listed = (await gateway.request('GET', '/containers')).body.data as { id: number; status: string }[]
    expect(listed.find((row) => row.id === guest.id)?.status).to.equal('unknown')
    const refused = await gateway.request('POST', `/containers/${guest.id}/stop`)
    expect([refused.status, refused.body.code]).to.deep.equal([503, 'host_offline'])
    expect(refused.headers['retry-after']).to.match(/^\d+$/)
    const taskPath = `/tasks/${randomUUID()}`
    const unknown = await gateway.request('GET', taskPath)
    expect([unknown.status, unknown.body.code]).to.deep.equal([503, 'host_offline'])
    expect((await gateway.request('GET', '/tasks/no-uuid')).status).to.equal(404)
    await gateway.fleet.setHostState('host-b', 'online')
    expect((await gateway.request('GET', taskPath)).status).to.equal(404)
    expect((await gateway.request('GET', `/containers/${guest.id}`)).body.data.status).to.equal('running')
  })

  it('returns an agent’s error with an HTTP status that matches the kind of error', async () => {
    for (const [kind, code, status] of [
      ['conflict', 'port_conflict', 409],
      ['exhausted', 'resource_exhausted', 409],
      ['timeout', 'agent_timeout', 504],
      ['internal', 'agent_error', 502],
      ['internal', 'internal_error', 500],
    ] as const) {
      gateway.fleet.agentFailure = new BerthError(kind, code, 'sent by the agent')
      const { body, ...reply } = await gateway.request('POST', '/containers/web-1/port-mappings', {
        body: { container_port: 80 },
      })
      expect([reply.status, body.code, body.success]).to.deep.equal([status, code, false])
      expect(body.request_id).to.equal(reply.headers['x-request-id'])
    }
    gateway.fleet.agentFailure = undefined
  })

  it('changes a container only if If-Match contains its present ETag', async function () {
    for (const [method, path] of [
      ['POST', '/start'],
      ['POST', '/stop'],
      ['POST', '/restart'],
      ['DELETE', '/delete'],
    ] as const) {
      const guest = await gateway.fleet.addGuest()
      const act = (etag: string, more: object = {}) =>
        gateway.request(method, `/containers/${guest.id}${path}`, { headers: { 'if-match': etag, ...more } })
      const seen = (await gateway.request('GET', `/containers/${guest.id}`)).headers['etag'] ?? ''
      await gateway.request('PUT', `/containers/${guest.id}/expiry`, { body: { expires_at: '2040-01-01' } })
      const now = (await gateway.request('GET', `/containers/${guest.id}`)).headers['etag'] ?? ''
      // The gateway waits long for a revision that the guest may reach in the future. To save time, only one method is
      // tested with such a revision.
      const toCome = method === 'DELETE' ? ['"999999999.x"'] : []
      for (const stale of [seen, `W/${seen}`, '"x"', ...toCome, `${seen}, "1.x"`]) {
        const { status, body } = await act(stale)
        expect([status, body.code], `${path} ${stale}`).to.deep.equal([412, 'precondition_failed'])
      }
      expect(gateway.fleet.operations().filter((one) => one.operation.subject?.number === guest.id)).to.be.empty
      expect((await act(`${seen}, ${now}`)).status, path).to.equal(202)
      // `If-Match: *` accepts every state, but a container that is already being deleted is not deleted again.
      expect((await act('*')).status, path).to.equal(method === 'DELETE' ? 409 : 202)
    }
  })

  it('shows a time after the year 9999 as the last second of that year, and still lists all containers', async () => {
    const far = Number.MAX_SAFE_INTEGER
    const { id } = await gateway.fleet.addGuest({ expiresAtMs: far, createdAtMs: -far })
    const { status, body } = await gateway.request('GET', '/containers')
    expect(status).to.equal(200)
    const rows = body.data as { id: number; expires_at: string; created_at: string }[]
    expect(rows.find((row) => row.id === id)).to.include({ expires_at: '9999-12-31 23:59:59', created_at: '' })
    const { policy } = gateway.fleet.agentOf('host-a').domain
    const use = policy.readUse.bind(policy)
    policy.readUse = (record) => ({ ...use(record), resetsAtMs: far })
    const traffic = await gateway.request('GET', `/containers/${id}/traffic`)
    expect([traffic.status, traffic.body.data?.resets_at]).to.deep.equal([200, '9999-12-31 23:59:59'])
  })

  it('refuses to create a container with a used name, an unknown template or an unknown host', async () => {
    for (const [change, status, code] of [
      [{}, 409, 'name_conflict'],
      [{ name: 'free-1', template_id: 'windows-95' }, 400, 'invalid_field'],
      [{ name: 'free-1', host_id: 'nowhere' }, 400, 'invalid_field'],
    ] as const) {
      const { body, ...reply } = await gateway.request('POST', '/containers', {
        body: { ...create, ...change },
      })
      expect([reply.status, body.code]).to.deep.equal([status, code])
    }
  })

  describe('if the key is bound to a container', () => {
    it('shows only this container, and gives the same answers for other containers as for missing ones', async () => {
      const mine = await gateway.fleet.addGuest({ name: 'mine' })
      const theirs = await gateway.fleet.addGuest({ name: 'theirs' })
      const key = await gateway.makeKey({ scopes: ['*'], container_uuids: [mine.uuid] })
      const list = (await gateway.request('GET', '/containers', { key })).body.data as { name: string }[]
      expect(list.map((row) => row.name)).to.deep.equal(['mine'])
      const short = (await gateway.request('GET', '/containers/list?sort=name', { key })).body.data as {
        name: string
      }[]
      expect(short.map((row) => row.name)).to.deep.equal(['mine'])
      expect((await gateway.request('GET', '/dashboard', { key })).body.data.total_containers).to.equal(1)
      for (const path of ['', '/usage', '/start', '/stop', '/restart', '/delete'] as const) {
        const method = path === '/delete' ? 'DELETE' : path === '' || path === '/usage' ? 'GET' : 'POST'
        const answers = await Promise.all(
          [theirs.id, theirs.uuid, theirs.name, 999999, 'no-such', crypto.randomUUID()].map(async (ref) => {
            const reply = await gateway.request(method, `/containers/${ref}${path}`, { key })
            expect(reply.status).to.equal(404)
            return reply.text.replace(reply.headers['x-request-id'] ?? '', '')
          }),
        )
        expect(new Set(answers).size, `${method} ${path}`).to.equal(1)
      }
    })

    it('shows only tasks of this container, and refuses creations', async () => {
      const mine = await gateway.fleet.addGuest()
      const theirs = await gateway.fleet.addGuest()
      const key = await gateway.makeKey({ scopes: ['*'], container_uuids: [mine.uuid] })
      const own = (await gateway.request('POST', `/containers/${mine.id}/stop`, { key })).body.data.task_id as string
      const other = (await gateway.request('POST', `/containers/${theirs.id}/stop`)).body.data.task_id as string
      const tasks = (await gateway.request('GET', '/tasks', { key })).body.data as { task_id: string }[]
      expect(tasks.map((task) => task.task_id)).to.deep.equal([own])
      expect((await gateway.request('GET', `/tasks/${other}`, { key })).status).to.equal(404)
      expect((await gateway.request('DELETE', `/tasks/${other}`, { key })).status).to.equal(404)
      for (const id of [own, other]) gateway.fleet.unlistOperation(id)
      expect((await gateway.request('GET', `/tasks/${own}`, { key })).status).to.equal(200)
      expect((await gateway.request('GET', `/tasks/${other}`, { key })).status).to.equal(404)
      expect((await gateway.request('DELETE', `/tasks/${other}`, { key })).status).to.equal(404)
      expect((await gateway.request('GET', `/tasks/${other}`)).status).to.equal(200)
      const refused = await gateway.request('POST', '/containers', { key, body: { ...create, name: 'more' } })
      expect([refused.status, refused.body.code]).to.deep.equal([403, 'insufficient_scope'])
    })
  })
})
