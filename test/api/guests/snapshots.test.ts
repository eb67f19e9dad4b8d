import { randomUUID } from 'node:crypto'
import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import type { LabAgent } from '../../support/memory/lab-agent.js'
import { SnapshotLab, type Row } from '../../support/gateway/snapshot-lab.js'
import type { Reply, TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

describe('snapshots over HTTP', function () {
  const lab = new SnapshotLab()
  const { write, content, kept, take, taken, read, ids, restore, remove, setQuota, run, detail } = lab
  let gateway: TestGateway
  let agent: LabAgent
  let guest: Guest
  let path: string
  before(async () => {
    await lab.start()
    ;({ gateway, agent } = lab)
  })
  after(() => lab.close())
  beforeEach(async () => {
    await lab.begin()
    ;({ guest, path } = lab)
  })
  afterEach(() => lab.endFaults())

  it('are created, and then shown with every field', async () => {
    const { status, body } = await take({ body: { description: 'before the upgrade' } })
    expect(status).to.equal(201)
    const row = body.data as Row
    expect(row).to.deep.include({
      container_id: guest.id,
      container_name: guest.name,
      scheduled: false,
      size_bytes: 1_000_000,
      description: 'before the upgrade',
    })
    expect(row.created_by).to.match(/^api:/)
    expect(row.created_at).to.match(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/)
    const schedule = {
      enabled: false,
      interval_hours: 0,
      last_run: '',
      next_run: '',
      time: '',
      retention: 0,
      created_by: '',
    }
    const space = { space_used_bytes: 1_000_000, space_limit_bytes: 2 * guest.limits!.diskGb * 1024 ** 3 }
    expect(await read()).to.deep.equal({ quota: 5, ...space, schedule, snapshots: [row] })
  })

  it('are created, restored and deleted only if If-Match contains the present ETag', async () => {
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

  it('are listed with the newest first, for one container and for all containers', async () => {
    const [first, second] = [await taken(), await taken({ body: '' })]
    expect(await ids()).to.deep.equal([second, first])
    const all = (await gateway.request('GET', '/snapshots')).body.data as Row[]
    expect(all.filter(({ container_id: id }) => id === guest.id).map(({ id }) => id)).to.deep.equal([second, first])
    const query = `?container_name=${guest.name}&page=2&page_size=1`
    const page = await gateway.request('GET', `/snapshots${query}`)
    expect((page.body.data as Row[]).map(({ id }) => id)).to.deep.equal([first])
    expect(page.headers['x-total-count']).to.equal('2')
  })

  it('are created only once if the request is repeated', async () => {
    const headers = { 'idempotency-key': randomUUID() }
    const [first, again] = [await taken({ headers }), await taken({ headers })]
    expect(again).to.equal(first)
    expect(await ids()).to.deep.equal([first])
  })

  for (const [what, options] of [
    ['a text of two lines', { body: { description: 'a\nb' } }],
    ['a text that is too long', { body: { description: 'x'.repeat(201) } }],
  ] as const)
    it(`are refused with ${what} as their description`, async () => {
      const { status, body } = await take(options)
      expect([status, body.details?.field]).to.deep.equal([400, 'description'])
    })

  it('are taken while the running guest is frozen, or without a freeze if freezing fails', async () => {
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

  it('are kept if only the thaw of the guest fails, and are deleted on the host after any other failure', async () => {
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

  it('leave nothing behind and do not count towards the quota if they fail', async () => {
    await setQuota({ snapshot_limit: 1 })
    agent.host.faults.snapshot = () => Promise.reject(new Error('no'))
    const { status, body } = await take()
    expect([status, body.code]).to.deep.equal([502, 'agent_error'])
    delete agent.host.faults.snapshot
    expect([await ids(), kept()]).to.deep.equal([[], []])
    await taken()
  })

  describe('when they are restored', () => {
    it('give a stopped guest its earlier disk, as often as requested', async () => {
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

    it('stop a running guest and start it again', async () => {
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
      it(`leave the guest unchanged if the step "${fault}" fails`, async () => {
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

    it('leave no additional snapshot if the start fails and the guest gets its previous disk back', async () => {
      await run()
      const id = await taken()
      write('second')
      const { faults } = agent.host
      faults.start = () => Promise.reject(new Error('no'))
      expect((await restore(id)).status).to.equal(502)
      delete faults.start
      expect([content(), kept(), await ids()]).to.deep.equal(['second', ['first'], [id]])
    })

    it('keep the previous disk as a snapshot if the guest starts from neither disk', async () => {
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

  it('cannot be restored or deleted after they were deleted', async () => {
    const id = await taken()
    const { status, body } = await remove(id)
    expect([status, body.data]).to.deep.equal([200, undefined])
    expect([await ids(), kept()]).to.deep.equal([[], []])
    for (const reply of [await remove(id), await restore(id), await remove('0'), await restore('..%2f..')])
      expect([reply.status, reply.body.code]).to.deep.equal([404, 'not_found'])
  })

  it('are listed again if they cannot be deleted', async () => {
    const id = await taken()
    agent.host.faults.deleteSnapshot = () => Promise.reject(new Error('no'))
    expect((await remove(id)).status).to.equal(502)
    expect(await ids()).to.deep.equal([id])
  })

  it('are hidden from a key bound to a different container', async () => {
    const [other, own] = [guest, await gateway.fleet.addGuest({ status: 'stopped', wanted: 'stopped' })]
    const foreign = await taken()
    path = lab.path = `/containers/${own.id}/snapshots`
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
    ['snapshot:read', ['list snapshots of a container', 'list all snapshots']],
    ['snapshot:create', ['create']],
    ['snapshot:restore', ['restore']],
    ['snapshot:delete', ['delete']],
    ['snapshot:schedule', ['set the quota']],
  ] as const)
    it(`need a scope for each kind of request: ${scope} is sufficient only to ${allowed.join(' and to ')}`, async () => {
      const key = await gateway.makeKey({ scopes: [scope] })
      const id = await taken()
      const calls: Record<string, () => Promise<Reply>> = {
        'list snapshots of a container': () => gateway.request('GET', path, { key }),
        'list all snapshots': () => gateway.request('GET', '/snapshots', { key }),
        create: () => gateway.request('POST', path, { key }),
        restore: () => gateway.request('POST', `${path}/${id}/restore`, { key }),
        'set the quota': () => gateway.request('PUT', `${path}/quota`, { key, body: { quota: 4 } }),
        delete: () => gateway.request('DELETE', `${path}/${id}`, { key }),
      }
      for (const [name, call] of Object.entries(calls))
        expect((await call()).status !== 403, name).to.equal((allowed as readonly string[]).includes(name))
    })

  it('are refused if the host is offline; if the host is slow, the answer is 504 with the id of the task, which continues', async () => {
    await gateway.fleet.setHostState('host-a', 'offline')
    expect((await take()).body.code).to.equal('host_offline')
    await gateway.fleet.setHostState('host-a', 'online')
    const { fleet } = gateway
    const ended = fleet.ended.bind(fleet)
    let release = (): void => undefined
    agent.host.faults.snapshot = () => new Promise((resolve) => (release = resolve))
    fleet.ended = (operation) => ended(operation, 1)
    const { status, body } = await take()
    fleet.ended = ended
    expect([status, body.code]).to.deep.equal([504, 'agent_timeout'])
    const task = body['details'].task_id as string
    expect(body.message).to.equal(`the task did not finish in time: task ${task} continues`)
    release()
    await waitFor(async () => (await ids()).includes(task), { what: 'the snapshot' })
  })

  it('are completed by the agent after a crash, and a repeated request gets their result', async () => {
    let interrupt: (() => void) | undefined
    agent.host.faults.snapshot = () => new Promise((_, reject) => (interrupt = () => reject(new Error('interrupted'))))
    const options = { headers: { 'idempotency-key': randomUUID() } }
    const pending = take(options)
    await waitFor(() => interrupt !== undefined, { what: 'a snapshot begun' })
    delete agent.host.faults.snapshot
    expect(await ids()).to.deep.equal([])
    await gateway.fleet.setHostState('host-a', 'offline') // the agent stops waiting for the step after 10 s
    interrupt?.()
    expect((await pending).status).to.equal(504)
    await gateway.fleet.setHostState('host-a', 'online')
    expect((await take(options)).status).to.equal(201)
    expect((await ids()).length).to.equal(1)
  })
})
