import { expect } from 'chai'
import { once } from 'node:events'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { EventStream } from '../../support/gateway/event-stream.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

type Row = Record<string, unknown>

describe('a deletion that can be undone', () => {
  let gateway: TestGateway
  let guest: Guest
  before(async () => {
    gateway = await startTestGateway()
    await gateway.fleet.work('host-a')
    const { status } = await setHours(24)
    expect(status).to.equal(200)
  })
  after(() => gateway.close())
  beforeEach(async () => {
    guest = await gateway.fleet.addGuest()
  })
  const setHours = (hours: unknown) =>
    gateway.request('PUT', '/deletion-settings', { body: { undo_delete_hours: hours } })
  const path = () => `/containers/${guest.id}`
  const remove = (query = '') => gateway.request('DELETE', `${path()}/delete${query}`)
  const undelete = (options = {}) => gateway.request('POST', `${path()}/undelete`, options)
  const detail = (options = {}) => gateway.request('GET', path(), options)
  const names = async (query: string, options = {}): Promise<unknown[]> =>
    ((await gateway.request('GET', `/containers${query}`, options)).body.data as Row[]).map(({ name }) => name)
  async function removed(query = ''): Promise<void> {
    const { status, text } = await remove(query)
    expect(status, text).to.equal(202)
  }
  const statusOf = (uuid: string) => gateway.fleet.agentOf('host-a').journal((store) => store.get(uuid).status)
  const wait = (what: string) => waitFor(async () => (await detail()).body.data?.status === what)

  it('stops and hides the container until the deletion is undone', async () => {
    const key = await gateway.makeKey({ scopes: ['*'], container_uuids: [guest.uuid] })
    const total = async () => (await gateway.request('GET', '/dashboard')).body.data.total_containers as number
    const before = await total()
    await removed()
    await waitFor(() => statusOf(guest.uuid) === 'stopped')
    const { data } = (await detail()).body
    expect(data).to.include({ status: 'deleted' })
    expect(Date.parse(`${String(data.deleted_until)}Z`)).to.be.greaterThan(Date.now() + 20 * 3_600_000)
    for (const query of ['', '?page=1', '?sort=name', '?status=stopped'])
      expect(await names(query), query).not.to.include(guest.name)
    expect(await names('?status=deleted')).to.deep.equal([guest.name])
    expect(await total()).to.equal(before - 1)
    expect([(await detail({ key })).status, await names('', { key })]).to.deep.equal([404, []])
    const start = await gateway.request('POST', `${path()}/start`)
    expect([start.status, start.body.code]).to.deep.equal([409, 'invalid_state'])
    expect((await undelete({ key })).body.code).to.equal('insufficient_scope')
    expect((await undelete()).body.message).to.equal('container restored')
    await wait('running')
    expect(await names('')).to.include(guest.name)
    expect((await detail()).body.data).not.to.have.property('deleted_until')
    expect((await undelete()).body.message).to.equal('the container was not deleted')
  })

  it('reserves the name and the ports of the container', async () => {
    await removed()
    const create = { name: guest.name, template_id: 'debian-12', vcpu: 0.5, ram_mb: 256, disk_gb: 5 }
    expect((await gateway.request('POST', '/containers', { body: create })).body.code).to.equal('name_conflict')
    await removed('?now=true')
    await waitFor(async () => (await detail()).status === 404)
  })

  it('is refused for a protected container, and for a deleted container if the request lacks now=true', async () => {
    await gateway.request('PATCH', path(), { body: { delete_protected: true } })
    expect((await remove()).body.code).to.equal('delete_protected')
    await gateway.request('PATCH', path(), { body: { delete_protected: false } })
    await removed()
    const until: unknown = (await detail()).body.data.deleted_until
    const second = await remove()
    expect([second.status, second.body.code]).to.deep.equal([409, 'invalid_state'])
    expect(second.body.message).to.include('is deleted already: undelete it first, or delete it with now=true')
    expect((await detail()).body.data, 'the time is not extended').to.include({ deleted_until: until })
    const key = await gateway.makeKey({ scopes: ['*'], container_uuids: [guest.uuid] })
    expect((await gateway.request('DELETE', `${path()}/delete`, { key })).status, 'of a bound caller').to.equal(404)
  })

  it('works for several containers in one request, and removes them immediately with now=true', async () => {
    const batch = (fields: object) =>
      gateway.request('POST', '/batch-action', { body: { action: 'delete', containers: [guest.uuid], ...fields } })
    expect((await batch({})).status).to.equal(202)
    await wait('deleted')
    expect((await batch({ now: true })).status).to.equal(202)
    await waitFor(async () => (await detail()).status === 404)
  })

  it('is reported by events', async () => {
    const stream = await EventStream.open(gateway.url, { 'x-api-key': gateway.adminKey })
    try {
      await stream.wait(({ event }) => event === 'ready', 'a beginning')
      await removed()
      expect((await stream.type('guest.deleted')).data.data).to.include({ uuid: guest.uuid, status: 'deleted' })
      await undelete()
      await stream.type('guest.undeleted')
      await removed('?now=true')
      await stream.type('guest.removed')
    } finally {
      stream.close()
    }
  })

  it('is shown as a final removal to API keys that are bound to the container', async () => {
    const key = await gateway.makeKey({ scopes: ['*'], container_uuids: [guest.uuid] })
    const stream = await EventStream.open(gateway.url, { 'x-api-key': key })
    try {
      await stream.wait(({ event }) => event === 'ready', 'a beginning')
      await removed()
      expect((await stream.type('guest.removed')).data.data).not.to.have.property('deleted_until')
      const body = { action: 'delete', containers: [guest.uuid] }
      expect((await gateway.request('POST', '/batch-action', { key, body })).status).to.equal(404)
      const { body: usage } = await gateway.request('GET', `/container-usage?containers=${guest.uuid}`, { key })
      expect(usage.data).to.deep.equal([])
      await undelete()
      expect((await stream.type('guest.created')).data.data).to.include({ uuid: guest.uuid })
      for (const type of ['guest.deleted', 'guest.undeleted']) expect(stream.types).not.to.include(type)
    } finally {
      stream.close()
    }
  })

  it('cannot be made final with now=true by keys bound to the container', async () => {
    const key = await gateway.makeKey({ scopes: ['*'], container_uuids: [guest.uuid] })
    const refused = await gateway.request('DELETE', `${path()}/delete?now=true`, { key })
    expect([refused.status, refused.body.code]).to.deep.equal([403, 'insufficient_scope'])
    const body = { action: 'delete', containers: [guest.uuid], now: true }
    expect((await gateway.request('POST', '/batch-action', { key, body })).body.code).to.equal('insufficient_scope')
  })

  describe('while another operation of the container runs', () => {
    let release: () => void
    beforeEach(async () => {
      const held = new AbortController()
      const released = once(held.signal, 'abort')
      release = () => held.abort()
      let isHeld = false
      gateway.fleet.agentOf('host-a').observer = async ({ step, phase }) => {
        if (step !== 'stop' || phase !== 'before-run') return
        isHeld = true
        await released
      }
      await gateway.request('POST', `${path()}/restart`)
      await waitFor(() => isHeld, { what: 'the restart stops the container' })
    })
    afterEach(() => {
      gateway.fleet.agentOf('host-a').observer = undefined
      release()
    })

    it('leaves the container running, and not marked as deleted, if the task of the deletion is canceled', async () => {
      const { body } = await remove()
      await wait('deleted')
      expect((await gateway.request('DELETE', `/tasks/${body.data.task_id}`)).status).to.equal(200)
      expect((await detail()).body.data).not.to.have.property('deleted_until')
      release()
      await wait('running')
    })

    it('prevents a later protection of the container if the deletion was requested with now=true', async () => {
      await removed('?now=true')
      const { status, body } = await gateway.request('PATCH', path(), { body: { delete_protected: true } })
      expect([status, body.code]).to.deep.equal([409, 'invalid_state'])
      release()
      await waitFor(async () => (await detail()).status === 404)
    })
  })

  it('can be undone for 0 to 720 hours (0 removes the container immediately)', async () => {
    expect((await setHours(721)).status).to.equal(400)
    expect((await gateway.request('GET', '/deletion-settings')).body.data).to.deep.equal({ undo_delete_hours: 24 })
    await setHours(0)
    try {
      await removed()
      await waitFor(async () => (await detail()).status === 404)
    } finally {
      await setHours(24)
    }
  })
})
