import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { SnapshotLab } from '../../support/gateway/snapshot-lab.js'
import type { Reply, TestGateway } from '../../support/gateway/test-gateway.js'

describe('the snapshot quota', function () {
  const lab = new SnapshotLab()
  const { kept, take, taken, read, ids, remove, setQuota, detail } = lab
  let gateway: TestGateway
  let guest: Guest
  let path: string
  before(async () => {
    await lab.start()
    ;({ gateway } = lab)
  })
  after(() => lab.close())
  beforeEach(async () => {
    await lab.begin()
    ;({ guest, path } = lab)
  })
  afterEach(() => lab.endFaults())

  it('limits the space of snapshots, and rejects a snapshot that would exceed this space', async () => {
    const set = await setQuota({ space_limit_bytes: 2_500_000 })
    expect(set.body.data.container).to.include({ snapshot_limit: 5, snapshot_space_limit_bytes: 2_500_000 })
    const [first] = [await taken(), await taken()]
    const refused = await take()
    expect([refused.status, refused.body.code]).to.deep.equal([409, 'snapshot_space_exceeded'])
    expect(await read()).to.include({ space_used_bytes: 2_000_000, space_limit_bytes: 2_500_000 })
    expect(await detail()).to.include({ snapshot_space_used_bytes: 2_000_000, snapshot_space_limit_bytes: 2_500_000 })
    expect((await remove(first)).status).to.equal(200)
    await taken()
  })

  it('keeps limits that a change omits, cannot exceed the pool, and resets the space limit to its default if it is set to 0', async () => {
    await setQuota({ snapshot_limit: 3, space_limit_bytes: 5_000_000 })
    expect((await setQuota({ quota: 4 })).body.data.container).to.include({
      snapshot_limit: 4,
      snapshot_space_limit_bytes: 5_000_000,
    })
    expect((await setQuota({ space_limit_bytes: 0 })).body.data.container).to.include({
      snapshot_limit: 4,
      snapshot_space_limit_bytes: 2 * guest.limits!.diskGb * 1024 ** 3,
    })
    const large = await setQuota({ space_limit_bytes: 2 ** 50 })
    expect([large.body.code, large.body.details?.field]).to.deep.equal(['resource_exhausted', 'space_limit_bytes'])
    for (const space_limit_bytes of [-1, 1.5, 'much', 2 ** 53])
      expect((await setQuota({ space_limit_bytes })).status, String(space_limit_bytes)).to.equal(400)
  })

  it('lets a key bound to containers set the number of snapshots, but not the space of snapshots', async () => {
    const key = await gateway.makeKey({ scopes: ['*'], container_uuids: [guest.uuid] })
    const set = (body: unknown): Promise<Reply> => gateway.request('PUT', `${path}/quota`, { key, body })
    const before = await detail()
    for (const body of [
      { space_limit_bytes: 5_000_000 },
      { space_limit_bytes: 0 },
      { snapshot_limit: 2, space_limit_bytes: 5_000_000 },
    ]) {
      const { status, body: refusal } = await set(body)
      expect([status, refusal.code, refusal.details?.field], JSON.stringify(body)).to.deep.equal([
        403,
        'insufficient_scope',
        'space_limit_bytes',
      ])
    }
    expect(await detail()).to.deep.equal(before)
    expect((await set({ snapshot_limit: 2 })).body.data.quota).to.equal(2)
  })

  it('can be set with the field snapshot_limit or quota, and prevents all snapshots if this number is 0', async () => {
    for (const [body, limit] of [
      [{ snapshot_limit: 3 }, 3],
      [{ quota: '2' }, 2],
      [{ snapshot_limit: 0, quota: 7 }, 0],
    ] as const) {
      const reply = await setQuota(body)
      const space = { snapshot_space_limit_bytes: 2 * guest.limits!.diskGb * 1024 ** 3 }
      const container = { id: guest.id, name: guest.name, snapshot_limit: limit, ...space }
      expect([reply.status, reply.body.data]).to.deep.equal([200, { quota: limit, container }])
      expect((await read()).quota).to.equal(limit)
    }
    const { status, body } = await take()
    expect([status, body.code]).to.deep.equal([403, 'quota_exceeded'])
    expect((await detail()).snapshot_limit).to.equal(0)
  })

  for (const body of [{}, { snapshot_limit: -1 }, { quota: 1001 }, { snapshot_limit: 'many' }])
    it(`cannot be changed by the request body ${JSON.stringify(body)}`, async () =>
      expect((await setQuota(body)).status).to.equal(400))

  it('keeps existing snapshots even if it becomes lower than their number', async () => {
    const id = await taken()
    await setQuota({ quota: 0 })
    expect(await ids()).to.deep.equal([id])
  })

  it('allows only one of thirty concurrent snapshots if it has space for only one more snapshot', async () => {
    await setQuota({ quota: 2 })
    await taken()
    const replies = await Promise.all(Array.from({ length: 30 }, () => take()))
    const statuses = replies.map(({ status }) => status).sort()
    expect(statuses).to.deep.equal([201, ...Array.from({ length: 29 }, () => 403)])
    expect([(await ids()).length, kept().length]).to.deep.equal([2, 2])
  })

  it('can be set when a container is created, and is five by default', async () => {
    for (const [name, fields, limit] of [
      ['snap-default', {}, 5],
      ['snap-none', { snapshot_limit: 0 }, 0],
      ['snap-text', { snapshot_limit: '3' }, 3],
    ] as const) {
      const body = { name, template_id: 'debian-12', start: false, ...fields }
      expect((await gateway.request('POST', '/containers', { body })).status).to.equal(202)
      const { data } = (await gateway.request('GET', `/containers/${name}/snapshots`)).body
      expect(data.quota).to.equal(limit)
    }
  })
})
