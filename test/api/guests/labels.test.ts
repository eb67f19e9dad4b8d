import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { FleetChange } from '../../../gateway/fleet/fleet-changes.js'
import { waitFor } from '../../support/wait.js'
import { startTestGateway, type TestGateway } from '../../support/gateway/test-gateway.js'

type Row = Record<string, unknown>

describe('the labels of a container', () => {
  let gateway: TestGateway
  let guest: Guest
  before(async () => {
    gateway = await startTestGateway()
  })
  after(() => gateway.close())
  beforeEach(async () => {
    guest = await gateway.fleet.addGuest()
  })
  const patch = (body: object, options = {}) =>
    gateway.request('PATCH', `/containers/${guest.id}`, { body, ...options })
  const detail = async (options = {}): Promise<Row> =>
    (await gateway.request('GET', `/containers/${guest.id}`, options)).body.data as Row
  const list = async (query: string, options = {}): Promise<unknown[]> =>
    ((await gateway.request('GET', `/containers?${query}`, options)).body.data as Row[]).map(({ name }) => name)

  it('can be changed individually, and are shown with the container', async () => {
    expect(await detail())
      .to.deep.include({ tags: [], delete_protected: false })
      .and.not.to.have.property('note')
    const { status, text } = await patch({ tags: ['web', 'db', 'web'], note: 'Paid until May.\nAsk first.' })
    expect(status, text).to.equal(200)
    await patch({ delete_protected: true })
    const labels = { tags: ['db', 'web'], note: 'Paid until May.\nAsk first.', delete_protected: true }
    expect(await detail()).to.deep.include(labels)
    await patch({ tags: [], note: '' })
    expect(await detail())
      .to.deep.include({ tags: [], delete_protected: true })
      .and.not.to.have.property('note')
  })

  it('include tags that are set at the creation, and an invalid tag prevents the creation', async () => {
    const fields = { template_id: 'debian-12', ram_mb: 64, disk_gb: 1, vcpu: 0.1, start: false }
    const create = (name: string, tags: readonly string[]) =>
      gateway.request('POST', '/containers', { body: { name, tags, ...fields } })
    const { status, body, text } = await create('tagged', ['web', 'berth.apply:main', 'web'])
    expect(status, text).to.equal(202)
    const row = (await gateway.request('GET', `/containers/${body.data.id}`)).body.data as Row
    expect(row['tags']).to.deep.equal(['berth.apply:main', 'web'])
    const refused = await create('untagged', ['Web'])
    expect([refused.status, refused.body.code]).to.deep.equal([400, 'invalid_field'])
  })

  it('are refused if one of them is invalid, and the error names the field of the invalid label', async () => {
    for (const [body, field] of [
      [{ tags: ['Web'] }, 'tags'],
      [{ tags: Array.from({ length: 17 }, (_, index) => `tag-${index}`) }, 'tags'],
      [{ note: 'x'.repeat(1001) }, 'note'],
      [{ delete_protected: 'maybe' }, 'delete_protected'],
    ] as const) {
      const { status, body: answer } = await patch(body)
      expect([status, answer.code], field).to.deep.equal([400, 'invalid_field'])
      expect(answer.message).to.contain(field)
    }
  })

  it('filter the list of containers', async () => {
    const other = await gateway.fleet.addGuest()
    await patch({ tags: ['green', 'blue'] })
    await gateway.request('PATCH', `/containers/${other.id}`, { body: { tags: ['green'] } })
    expect(await list('tag=green')).to.have.members([guest.name, other.name])
    expect(await list('tag=blue&sort=-name')).to.deep.equal([guest.name])
    expect(await list('tag=blu')).to.deep.equal([])
    await patch({ tags: ['green'] })
    expect(await list('tag=blue')).to.deep.equal([])
    expect((await gateway.request('GET', '/containers?tag=No')).status).to.equal(400)
  })

  it('are visible to callers bound to containers, except the note, but these callers cannot change them', async () => {
    await patch({ tags: ['vip'], note: 'pays late', delete_protected: true })
    const key = await gateway.makeKey({ scopes: ['*'], container_uuids: [guest.uuid] })
    expect(await detail({ key }))
      .to.deep.include({ tags: ['vip'], delete_protected: true })
      .and.not.to.have.property('note')
    expect(await list('tag=vip', { key })).to.deep.equal([guest.name])
    const { status, body } = await patch({ delete_protected: false }, { key })
    expect([status, body.code]).to.deep.equal([403, 'insufficient_scope'])
    const audit = await gateway.request('GET', `/audit-logs?page_size=1&action=container.label`)
    expect(audit.text).not.to.contain('pays late')
  })

  it('include the name, which must be unique, and the former name is free again after a change', async () => {
    const other = await gateway.fleet.addGuest()
    const changes: FleetChange[] = []
    const end = gateway.fleet.view.changes.listen((change) => changes.push(change))
    expect((await patch({ name: 'renamed' })).status).to.equal(200)
    end()
    expect(
      changes.filter(({ before, after }: { before?: unknown; after?: unknown }) => !before || !after),
    ).to.deep.equal([])
    expect((await gateway.request('GET', '/containers/Renamed')).body.data.uuid).to.equal(guest.uuid)
    for (const [name, code] of [
      [other.name.toUpperCase(), 'name_conflict'],
      ['a b', 'invalid_field'],
      ['123', 'invalid_field'],
    ] as const)
      expect((await patch({ name })).body.code, name).to.equal(code)
    expect((await patch({ name: 'RENAMED', tags: ['web'] })).status).to.equal(200)
    expect(await detail()).to.include({ name: 'RENAMED' })
    const take = () => gateway.request('PATCH', `/containers/${other.id}`, { body: { name: guest.name } })
    await waitFor(async () => (await take()).status === 200, { what: 'the former name is free' })
  })

  it('can protect the container against deletion and reinstallation, even in requests for several guests', async () => {
    await patch({ delete_protected: true })
    const path = `/containers/${guest.id}`
    const remove = () => gateway.request('DELETE', `${path}/delete`)
    const reinstall = { template_id: 'debian-12' }
    const batch = { action: 'delete', containers: [guest.name] }
    for (const answer of [
      await remove(),
      await gateway.request('POST', `${path}/reinstall`, { body: reinstall }),
      await gateway.request('POST', '/batch-action', { body: batch }),
      await gateway.request('POST', '/batch-action', { body: { ...batch, ...reinstall, action: 'reinstall' } }),
    ])
      expect([answer.status, answer.body.code], answer.text).to.deep.equal([409, 'delete_protected'])
    await patch({ delete_protected: false })
    expect((await remove()).status).to.equal(202)
  })
})
