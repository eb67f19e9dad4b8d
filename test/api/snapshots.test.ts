import { randomUUID } from 'node:crypto'
import { expect } from 'chai'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { LabAgent } from '../support/lab-agent.js'
import {
  startTestGateway,
  type Reply,
  type RequestOptions,
  type TestGateway,
} from '../support/test-gateway.js'
import { waitFor } from '../support/wait.js'

type Row = Record<string, unknown>

describe('snapshots over HTTP', function () {
  this.timeout(120_000)
  let gateway: TestGateway
  let agent: LabAgent
  let guest: Guest
  let path: string

  before(async () => {
    gateway = await startTestGateway()
    await gateway.fleet.work('host-a')
    agent = gateway.fleet.agentOf('host-a')
  })
  after(() => gateway.close())
  beforeEach(async () => {
    guest = await gateway.fleet.addGuest({ status: 'stopped', wanted: 'stopped' })
    path = `/containers/${guest.id}/snapshots`
    write('first')
  })
  afterEach(() => {
    for (const name of Object.keys(agent.host.faults)) delete agent.host.faults[name as 'snapshot']
  })

  const write = (text: string): unknown => agent.host.contents.set(guest.uuid, text)
  const content = (): string | undefined => agent.host.contents.get(guest.uuid)
  const kept = (): string[] => [...(agent.host.snapshots.get(guest.uuid)?.values() ?? [])]
  const take = (options: RequestOptions = {}): Promise<Reply> => gateway.request('POST', path, options)
  const taken = async (options: RequestOptions = {}): Promise<string> => {
    const { status, body, text } = await take(options)
    expect(status, text).to.equal(201)
    return body.data.id as string
  }
  const read = async (): Promise<{ quota: number; schedule: Row; snapshots: Row[] }> =>
    (await gateway.request('GET', path)).body.data as never
  const ids = async (): Promise<unknown[]> => (await read()).snapshots.map(({ id }) => id)
  const restore = (id: string): Promise<Reply> => gateway.request('POST', `${path}/${id}/restore`)
  const remove = (id: string): Promise<Reply> => gateway.request('DELETE', `${path}/${id}`)
  const setQuota = (body: unknown): Promise<Reply> => gateway.request('PUT', `${path}/quota`, { body })
  const run = async (): Promise<void> => {
    agent.host.driver.run(guest.uuid)
    agent.update(guest.uuid, { status: 'running', wanted: 'running' })
    await gateway.fleet.caughtUp('host-a')
  }
  const detail = async (): Promise<Row> =>
    (await gateway.request('GET', `/containers/${guest.id}`)).body.data as Row

  it('are taken, and shown field by field once they are', async () => {
    const { status, body } = await take({ body: { description: 'before the upgrade' } })
    expect(status).to.equal(201)
    const row = body.data as Row
    expect(row).to.deep.include({
      ...{ container_id: guest.id, container_name: guest.name, scheduled: false, size_bytes: 1_000_000 },
      ...{ description: 'before the upgrade' },
    })
    expect(row.created_by).to.match(/^api:/)
    expect(row.created_at).to.match(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/)
    const schedule = {
      ...{
        enabled: false,
        interval_hours: 0,
        last_run: '',
        next_run: '',
        time: '',
        retention: 0,
        created_by: '',
      },
    }
    const space = { space_used_bytes: 1_000_000, space_limit_bytes: 2 * guest.limits!.diskGb * 1024 ** 3 }
    expect(await read()).to.deep.equal({ quota: 5, ...space, schedule, snapshots: [row] })
  })

  it('are taken, restored and deleted only in the state that If-Match names', async () => {
    const id = await taken()
    const answer = await gateway.request('GET', `/containers/${guest.id}`)
    const headers = { 'if-match': answer.headers['etag'] ?? '' }
    expect((await take({ headers })).status).to.equal(201)
    const late = [
      await take({ headers }),
      await gateway.request('POST', `${path}/${id}/restore`, { headers }),
      await gateway.request('DELETE', `${path}/${id}`, { headers }),
    ]
    expect(late.map(({ status }) => status)).to.deep.equal([412, 412, 412])
    expect(await ids())
      .to.have.length(2)
      .and.include(id)
  })

  it('are listed newest first, of one container and of all', async () => {
    const [first, second] = [await taken(), await taken({ body: '' })]
    expect(await ids()).to.deep.equal([second, first])
    const all = (await gateway.request('GET', '/snapshots')).body.data as Row[]
    expect(all.filter(({ container_id: id }) => id === guest.id).map(({ id }) => id)).to.deep.equal([
      second,
      first,
    ])
    const query = `?container_name=${guest.name}&page=2&page_size=1`
    const page = await gateway.request('GET', `/snapshots${query}`)
    expect((page.body.data as Row[]).map(({ id }) => id)).to.deep.equal([first])
    expect(page.headers['x-total-count']).to.equal('2')
  })

  it('are taken once where the request is repeated', async () => {
    const headers = { 'idempotency-key': randomUUID() }
    const [first, again] = [await taken({ headers }), await taken({ headers })]
    expect(again).to.equal(first)
    expect(await ids()).to.deep.equal([first])
  })

  for (const [what, options] of [
    ['two lines', { body: { description: 'a\nb' } }],
    ['a long text', { body: { description: 'x'.repeat(201) } }],
  ] as const)
    it(`refuse ${what} as a description`, async () => {
      const { status, body } = await take(options)
      expect([status, body.details?.field]).to.deep.equal([400, 'description'])
    })

  it('freeze a guest that runs, which goes on afterwards even where that fails', async () => {
    await run()
    const calls: string[] = []
    const { faults } = agent.host
    faults.freeze = () => void calls.push('freeze')
    faults.snapshot = () => void calls.push('snapshot')
    faults.thaw = () => void calls.push('thaw')
    await taken()
    expect(calls).to.deep.equal(['freeze', 'snapshot', 'thaw'])
    faults.freeze = () => Promise.reject(new Error('busy'))
    calls.length = 0
    await taken()
    expect(calls).to.deep.equal(['snapshot', 'thaw'])
  })

  it('are taken, and taken back, of a guest that does not thaw', async () => {
    await run()
    agent.host.faults.thaw = () => Promise.reject(new Error('silent'))
    const id = await taken()
    expect(await ids()).to.deep.equal([id])
    const removed: string[] = []
    agent.host.faults.snapshot = () => Promise.reject(new Error('no'))
    agent.host.faults.deleteSnapshot = (uuid) => void removed.push(uuid)
    expect((await take()).status).to.equal(502)
    expect([await ids(), removed]).to.deep.equal([[id], [guest.uuid]])
  })

  it('that fail leave nothing behind, not even of the quota', async () => {
    await setQuota({ snapshot_limit: 1 })
    agent.host.faults.snapshot = () => Promise.reject(new Error('no'))
    const { status, body } = await take()
    expect([status, body.code]).to.deep.equal([502, 'agent_error'])
    delete agent.host.faults.snapshot
    expect([await ids(), kept()]).to.deep.equal([[], []])
    await taken()
  })

  describe('restore', () => {
    it('puts a stopped guest’s disk back, as often as wanted', async () => {
      const id = await taken()
      for (const text of ['second', 'third']) {
        write(text)
        const { status, body } = await restore(id)
        expect([status, body.data]).to.deep.equal([200, undefined])
        expect(content()).to.equal('first')
      }
      expect([await ids(), kept()]).to.deep.equal([[id], ['first']])
      expect((await detail()).status).to.equal('stopped')
      expect(agent.host.driver.running.has(guest.uuid)).to.equal(false)
    })

    it('stops a guest that runs, and starts it again', async () => {
      await run()
      const pid = agent.host.driver.running.get(guest.uuid)
      const id = await taken()
      write('second')
      expect((await restore(id)).status).to.equal(200)
      expect(content()).to.equal('first')
      expect(agent.host.driver.running.get(guest.uuid)).to.be.a('number').and.not.equal(pid)
      expect((await detail()).status).to.equal('running')
    })

    for (const fault of ['prepare', 'stop', 'exchange', 'start'] as const)
      it(`leaves the guest as it was where ${fault} fails`, async () => {
        await run()
        const id = await taken()
        write('second')
        let failed = false
        agent.host.faults[fault] = () => {
          if (failed) return
          failed = true
          throw new Error('no')
        }
        expect((await restore(id)).status).to.equal(502)
        expect([content(), kept(), await ids()]).to.deep.equal(['second', ['first'], [id]])
        expect(agent.host.driver.running.has(guest.uuid)).to.equal(true)
        expect((await detail()).status).to.equal('running')
      })

    it('offers nothing where the old disk is back, though nothing starts', async () => {
      await run()
      const id = await taken()
      write('second')
      const { faults } = agent.host
      faults.start = () => Promise.reject(new Error('no'))
      expect((await restore(id)).status).to.equal(502)
      delete faults.start
      expect([content(), kept(), await ids()]).to.deep.equal(['second', ['first'], [id]])
    })

    it('offers what the disk was where neither the one nor the other comes up', async () => {
      await run()
      const id = await taken()
      write('second')
      const { faults } = agent.host
      faults.start = () => {
        faults.prepare = () => Promise.reject(new Error('no'))
        return Promise.reject(new Error('no'))
      }
      expect((await restore(id)).status).to.equal(502)
      delete faults.start
      delete faults.prepare
      const [offered] = (await read()).snapshots
      expect(offered).to.include({ created_by: 'system', description: 'before a restore that failed' })
      expect((await restore(offered!.id as string)).status).to.equal(200)
      expect(content()).to.equal('second')
    })
  })

  it('are deleted, and then neither restored nor deleted', async () => {
    const id = await taken()
    const { status, body } = await remove(id)
    expect([status, body.data]).to.deep.equal([200, undefined])
    expect([await ids(), kept()]).to.deep.equal([[], []])
    for (const reply of [await remove(id), await restore(id), await remove('0'), await restore('..%2f..')])
      expect([reply.status, reply.body.code]).to.deep.equal([404, 'not_found'])
  })

  it('that cannot be deleted are there again', async () => {
    const id = await taken()
    agent.host.faults.deleteSnapshot = () => Promise.reject(new Error('no'))
    expect((await remove(id)).status).to.equal(502)
    expect(await ids()).to.deep.equal([id])
  })

  describe('quota', () => {
    it('limits the space that snapshots retain, and refuses a snapshot that would exceed it', async () => {
      const set = await setQuota({ space_limit_bytes: 2_500_000 })
      expect(set.body.data.container).to.include({
        ...{ snapshot_limit: 5, snapshot_space_limit_bytes: 2_500_000 },
      })
      const [first] = [await taken(), await taken()]
      const refused = await take()
      expect([refused.status, refused.body.code]).to.deep.equal([409, 'snapshot_space_exceeded'])
      expect(await read()).to.include({ space_used_bytes: 2_000_000, space_limit_bytes: 2_500_000 })
      expect(await detail()).to.include({
        ...{ snapshot_space_used_bytes: 2_000_000, snapshot_space_limit_bytes: 2_500_000 },
      })
      expect((await remove(first)).status).to.equal(200)
      await taken()
    })

    it('has a default of space again with 0, keeps what is not sent, and refuses more than the pool has', async () => {
      await setQuota({ snapshot_limit: 3, space_limit_bytes: 5_000_000 })
      expect((await setQuota({ quota: 4 })).body.data.container).to.include({
        ...{ snapshot_limit: 4, snapshot_space_limit_bytes: 5_000_000 },
      })
      expect((await setQuota({ space_limit_bytes: 0 })).body.data.container).to.include({
        ...{ snapshot_limit: 4, snapshot_space_limit_bytes: 2 * guest.limits!.diskGb * 1024 ** 3 },
      })
      const large = await setQuota({ space_limit_bytes: 2 ** 50 })
      expect([large.body.code, large.body.details?.field]).to.deep.equal([
        ...['resource_exhausted', 'space_limit_bytes'],
      ])
      for (const space_limit_bytes of [-1, 1.5, 'much', 2 ** 53])
        expect((await setQuota({ space_limit_bytes })).status, String(space_limit_bytes)).to.equal(400)
    })

    it('lets a key that is bound to the container set the number, not the space', async () => {
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
          ...[403, 'insufficient_scope', 'space_limit_bytes'],
        ])
      }
      expect(await detail()).to.deep.equal(before)
      expect((await set({ snapshot_limit: 2 })).body.data.quota).to.equal(2)
    })

    it('is set by either name, shown, and none where it is 0', async () => {
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
      it(`refuses ${JSON.stringify(body)}`, async () => expect((await setQuota(body)).status).to.equal(400))

    it('keeps what is more than it', async () => {
      const id = await taken()
      await setQuota({ quota: 0 })
      expect(await ids()).to.deep.equal([id])
    })

    it('lets one of thirty at once have the last place', async () => {
      await setQuota({ quota: 2 })
      await taken()
      const replies = await Promise.all(Array.from({ length: 30 }, () => take()))
      const statuses = replies.map(({ status }) => status).sort()
      expect(statuses).to.deep.equal([201, ...Array.from({ length: 29 }, () => 403)])
      expect([(await ids()).length, kept().length]).to.deep.equal([2, 2])
    })

    it('is given at creation, five by default', async () => {
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

  it('of others are hidden from a key that is bound to a container', async () => {
    const [other, own] = [guest, await gateway.fleet.addGuest({ status: 'stopped', wanted: 'stopped' })]
    const foreign = await taken()
    path = `/containers/${own.id}/snapshots`
    const id = await taken()
    const key = await gateway.makeKey({ scopes: ['*'], container_uuids: [own.uuid] })
    const list = (await gateway.request('GET', '/snapshots', { key })).body.data as Row[]
    expect(list.map((row) => row.id)).to.deep.equal([id])
    for (const tried of [
      await gateway.request('GET', `/containers/${other.id}/snapshots`, { key }),
      await gateway.request('POST', `/containers/${other.id}/snapshots`, { key }),
      await gateway.request('DELETE', `${path}/${foreign}`, { key }),
      await gateway.request('POST', `${path}/${foreign}/restore`, { key }),
    ])
      expect([tried.status, tried.body.code]).to.deep.equal([404, 'not_found'])
  })

  for (const [scope, allowed] of [
    ['snapshot:read', ['list', 'all']],
    ['snapshot:create', ['create']],
    ['snapshot:restore', ['restore']],
    ['snapshot:delete', ['delete']],
    ['snapshot:schedule', ['quota']],
  ] as const)
    it(`${scope} allows ${allowed.join(' and ')} alone`, async () => {
      const key = await gateway.makeKey({ scopes: [scope] })
      const id = await taken()
      const calls: Record<string, () => Promise<Reply>> = {
        list: () => gateway.request('GET', path, { key }),
        all: () => gateway.request('GET', '/snapshots', { key }),
        create: () => gateway.request('POST', path, { key }),
        restore: () => gateway.request('POST', `${path}/${id}/restore`, { key }),
        quota: () => gateway.request('PUT', `${path}/quota`, { key, body: { quota: 4 } }),
        delete: () => gateway.request('DELETE', `${path}/${id}`, { key }),
      }
      for (const [name, call] of Object.entries(calls))
        expect((await call()).status !== 403, name).to.equal((allowed as readonly string[]).includes(name))
    })

  it('that the host is away from are 503, and a task that takes too long goes on', async () => {
    await gateway.fleet.setHostState('host-a', 'offline')
    expect((await take()).body.code).to.equal('host_offline')
    await gateway.fleet.setHostState('host-a', 'online')
    agent = gateway.fleet.agentOf('host-a')
    const { fleet } = gateway
    const ended = fleet.ended.bind(fleet)
    let release = (): void => undefined
    agent.host.faults.snapshot = () => new Promise((resolve) => (release = resolve))
    fleet.ended = (operation) => ended(operation, 1)
    const { status, body } = await take()
    fleet.ended = ended
    expect([status, body.code]).to.deep.equal([504, 'agent_timeout'])
    const task = body['details'].task_id as string
    expect(body.message).to.equal(`not finished in time: task ${task} continues`)
    release()
    await waitFor(async () => (await ids()).includes(task), { what: 'the snapshot' })
  })

  it('are finished by the next agent after a crash, and the repeated request gets the result', async () => {
    let interrupt: (() => void) | undefined
    agent.host.faults.snapshot = () =>
      new Promise((_, reject) => (interrupt = () => reject(new Error('interrupted'))))
    const options = { headers: { 'idempotency-key': randomUUID() } }
    const pending = take(options)
    await waitFor(() => interrupt !== undefined, { what: 'a snapshot begun' })
    delete agent.host.faults.snapshot
    expect(await ids()).to.deep.equal([])
    const gone = gateway.fleet.setHostState('host-a', 'offline')
    await waitFor(() => gateway.fleet.findHost('host-a')?.state === 'offline', { what: 'host-a away' })
    interrupt?.()
    await gone
    expect((await pending).status).to.equal(504)
    await gateway.fleet.setHostState('host-a', 'online')
    expect((await take(options)).status).to.equal(201)
    expect((await ids()).length).to.equal(1)
  })
})
