import { expect } from 'chai'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import type { LabAgent } from '../support/lab-agent.js'
import { startTestGateway, type Reply, type TestGateway } from '../support/test-gateway.js'
import { waitFor } from '../support/wait.js'

type Row = Record<string, unknown>

const dayMs = 86_400_000
/** The agent's clock where a test begins. */
const begin = Date.UTC(2027, 4, 3, 10, 0, 0)

describe('snapshot schedules over HTTP', function () {
  this.timeout(30_000)
  let gateway: TestGateway
  let agent: LabAgent
  let guest: Guest
  let path: string
  let nowMs = begin

  before(async () => {
    gateway = await startTestGateway()
    await gateway.fleet.work('host-a')
    agent = gateway.fleet.agentOf('host-a')
    agent.now = () => nowMs
  })
  after(() => gateway.close())
  beforeEach(async () => {
    nowMs = begin
    guest = await gateway.fleet.addGuest({ status: 'stopped', wanted: 'stopped' })
    path = `/containers/${guest.id}/snapshots`
  })
  afterEach(async () => {
    for (const name of Object.keys(agent.host.faults)) delete agent.host.faults[name as 'snapshot']
    if (agent.guests().some(({ uuid }) => uuid === guest.uuid)) await set({ enabled: false })
  })

  const set = (body: unknown): Promise<Reply> => gateway.request('POST', `${path}/schedule`, { body })
  const isSet = async (body: unknown): Promise<Row> => {
    const { status, body: answer, text } = await set(body)
    expect(status, text).to.equal(200)
    return answer.data.container as Row
  }
  const daily = { enabled: true, interval_hours: 24, time: '03:30' }
  const read = async (): Promise<{ quota: number; schedule: Row; snapshots: Row[] }> =>
    (await gateway.request('GET', path)).body.data as never
  const tasks = async (): Promise<Row[]> =>
    ((await gateway.request('GET', '/tasks')).body.data as Row[]).filter(
      ({ container_id: id, action }) => id === guest.id && action === 'snapshot-scheduled',
    )
  const isBusy = (): boolean => agent.domain.engine.busy({ kind: 'guest', id: guest.uuid })
  /** The agent looks at that time, and what it orders ends. */
  const lookAt = async (ms: number): Promise<void> => {
    nowMs = ms
    agent.domain.snapshots.look()
    await waitFor(() => !isBusy(), { what: 'nothing under way' })
    await gateway.fleet.caughtUp('host-a')
  }
  const nextMs = (): number =>
    agent.guests().find(({ uuid }) => uuid === guest.uuid)!.snapshotSchedule.nextRunMs
  const runNext = (): Promise<void> => lookAt(nextMs())
  const take = async (): Promise<string> => (await gateway.request('POST', path)).body.data.id as string

  it('are set and shown', async () => {
    expect(await isSet({ ...daily, retention: 3 })).to.deep.equal({
      ...{ id: guest.id, name: guest.name, snapshot_schedule_enabled: true },
      ...{ snapshot_schedule_interval_hours: 24, snapshot_schedule_time: '03:30' },
      snapshot_schedule_retention: 3,
    })
    const { created_by: createdBy, ...schedule } = (await read()).schedule
    expect(createdBy).to.match(/^api:/)
    expect(schedule).to.deep.equal({
      ...{ enabled: true, interval_hours: 24, time: '03:30', retention: 3 },
      ...{ last_run: '', next_run: '2027-05-04 03:30:00' },
    })
  })

  it('keep what is not sent, and know no run while they are off', async () => {
    await isSet({ ...daily, retention: 3 })
    expect(await isSet({ enabled: false })).to.include({ snapshot_schedule_enabled: false })
    expect((await read()).schedule).to.include({ time: '03:30', retention: 3, next_run: '' })
    await isSet({ enabled: '1', interval_hours: '12', time: '' })
    expect((await read()).schedule).to.include({
      ...{ interval_hours: 12, time: '03:30', retention: 3, next_run: '2027-05-03 15:30:00' },
    })
  })

  for (const [body, code, field] of [
    [{}, 'missing_field', 'enabled'],
    [{ enabled: true }, 'missing_field', 'interval_hours'],
    [{ enabled: true, interval_hours: 0 }, 'missing_field', 'interval_hours'],
    [{ ...daily, interval_hours: 8761 }, 'invalid_field', 'interval_hours'],
    [{ ...daily, interval_hours: -1 }, 'invalid_field', 'interval_hours'],
    [{ ...daily, interval_hours: 1.5 }, 'invalid_field', 'interval_hours'],
    [{ ...daily, time: '24:00' }, 'invalid_field', 'time'],
    [{ ...daily, time: '3:30' }, 'invalid_field', 'time'],
    [{ ...daily, time: '03:30\n' + 'x' }, 'invalid_field', 'time'],
    [{ ...daily, retention: 1001 }, 'invalid_field', 'retention'],
    [{ ...daily, enabled: 'maybe' }, 'invalid_field', 'enabled'],
  ] as const)
    it(`refuse ${JSON.stringify(body)}`, async () => {
      const reply = await set(body)
      expect([reply.status, reply.body.code, reply.body.details?.field]).to.deep.equal([400, code, field])
    })

  it('need the scope, and show nothing of others', async () => {
    const other = await gateway.fleet.addGuest({ status: 'stopped', wanted: 'stopped' })
    const [bound, reader] = [
      await gateway.makeKey({ scopes: ['snapshot:*'], container_uuids: [other.uuid] }),
      await gateway.makeKey({ scopes: ['snapshot:read'] }),
    ]
    const asked = (key: string) => gateway.request('POST', `${path}/schedule`, { key, body: daily })
    expect((await asked(bound)).status).to.equal(404)
    expect((await asked(reader)).status).to.equal(403)
  })

  it('take snapshots at their time, as tasks of their own', async () => {
    await isSet(daily)
    await lookAt(nextMs() - 1000)
    expect((await read()).snapshots).to.deep.equal([])
    await runNext()
    const { snapshots, schedule } = await read()
    expect(snapshots).to.have.length(1)
    expect(snapshots[0]).to.include({ scheduled: true, created_by: 'schedule', size_bytes: 1_000_000 })
    expect(schedule).to.include({ last_run: '2027-05-04 03:30:00', next_run: '2027-05-05 03:30:00' })
    const [task] = await tasks()
    expect(task).to.include({ status: 'done', user: 'schedule', task_id: snapshots[0]!.id })
    await lookAt(nowMs + 60_000)
    expect(await tasks()).to.have.length(1)
  })

  it('drop the oldest of theirs beyond the quota, never one made by hand', async () => {
    const hand = await take()
    await isSet(daily)
    for (let run = 0; run < 6; run++) await runNext()
    const { snapshots, quota } = await read()
    expect(quota).to.equal(5)
    expect(snapshots.map(({ created_at: at }) => at)).to.deep.equal([
      ...['2027-05-09', '2027-05-08', '2027-05-07', '2027-05-06'].map((day) => `${day} 03:30:00`),
      '2027-05-03 10:00:00',
    ])
    expect(snapshots.at(-1)!.id).to.equal(hand)
    expect([...agent.host.snapshots.get(guest.uuid)!.keys()]).to.have.members(
      snapshots.map(({ id }) => id as string),
    )
  })

  it('drop the oldest beyond the retention', async () => {
    await isSet({ ...daily, retention: 2 })
    for (let run = 0; run < 4; run++) await runNext()
    expect((await read()).snapshots.map(({ created_at: at }) => at)).to.deep.equal([
      '2027-05-07 03:30:00',
      '2027-05-06 03:30:00',
    ])
  })

  it('fail as a task where those made by hand fill the quota, and drop none', async () => {
    await gateway.request('PUT', `${path}/quota`, { body: { snapshot_limit: 2 } })
    const hand = [await take(), await take()]
    await isSet(daily)
    await runNext()
    expect((await tasks())[0]).to.include({ status: 'failed' })
    expect((await tasks())[0]!.error).to.include('may have 2 snapshots')
    expect((await read()).snapshots.map(({ id }) => id)).to.have.members(hand)
  })

  it('keep what they would have dropped where the new one cannot be taken', async () => {
    await isSet({ ...daily, retention: 1 })
    await runNext()
    const [first] = (await read()).snapshots
    agent.host.faults.snapshot = () => Promise.reject(new Error('no'))
    await runNext()
    delete agent.host.faults.snapshot
    expect((await read()).snapshots).to.deep.equal([first])
    await runNext()
    const { snapshots } = await read()
    expect(snapshots).to.have.length(1)
    expect(snapshots[0]!.id).to.not.equal(first!.id)
  })

  it('keep the new one where an old one cannot be deleted, and drop it the next time', async () => {
    await isSet({ ...daily, retention: 1 })
    await runNext()
    agent.host.faults.deleteSnapshot = () => Promise.reject(new Error('no'))
    await runNext()
    expect((await read()).snapshots).to.have.length(2)
    delete agent.host.faults.deleteSnapshot
    await runNext()
    expect((await read()).snapshots).to.have.length(1)
  })

  it('are held while a container is blocked, and go on with the next regular run', async () => {
    await isSet(daily)
    await gateway.request('PUT', `/containers/${guest.id}/expiry`, { body: { expires_at: '2020-01-01' } })
    await runNext()
    await runNext()
    expect(await tasks()).to.deep.equal([])
    expect((await read()).schedule).to.include({ last_run: '', next_run: '2027-05-06 03:30:00' })
    await gateway.request('PUT', `/containers/${guest.id}/expiry`, { body: { expires_at: '' } })
    await runNext()
    expect(await tasks()).to.have.length(1)
  })

  it('wait for what is done with the container', async () => {
    await isSet(daily)
    let release: (() => void) | undefined
    agent.host.faults.snapshot = () => new Promise((resolve) => (release = resolve))
    const asked = gateway.request('POST', path)
    await waitFor(() => release !== undefined, { what: 'a snapshot begun' })
    nowMs = nextMs()
    agent.domain.snapshots.look()
    expect(await tasks()).to.deep.equal([])
    delete agent.host.faults.snapshot
    release?.()
    expect((await asked).status).to.equal(201)
    await lookAt(nowMs + 60_000)
    expect(await tasks()).to.have.length(1)
  })

  it('make up once for weeks without an agent, within half an hour', async () => {
    await isSet(daily)
    await runNext()
    await gateway.fleet.setHostState('host-a', 'offline')
    const back = nowMs + 20 * dayMs + 7_200_000
    nowMs = back
    await gateway.fleet.setHostState('host-a', 'online')
    expect(await tasks()).to.have.length(1)
    expect(nextMs()).to.be.within(back, back + 1_800_000)
    await runNext()
    await lookAt(nowMs + 3_600_000)
    expect(await tasks()).to.have.length(2)
    expect((await read()).schedule.next_run).to.equal('2027-05-25 03:30:00')
  })

  it('of many containers at one time run two at once, and all of them', async () => {
    const guests = [guest]
    while (guests.length < 25)
      guests.push(await gateway.fleet.addGuest({ status: 'stopped', wanted: 'stopped' }))
    for (const { id } of guests)
      await gateway.request('POST', `/containers/${id}/snapshots/schedule`, { body: daily })
    let [atOnce, most] = [0, 0]
    agent.host.faults.snapshot = async () => {
      most = Math.max(most, ++atOnce)
      await new Promise((resolve) => setImmediate(resolve))
      atOnce--
    }
    nowMs = nextMs()
    agent.domain.snapshots.look()
    const taken = (): number =>
      guests.filter(({ uuid }) => agent.domain.context.store.get(uuid).snapshots[0]?.state === 'ready').length
    await waitFor(() => taken() === guests.length, { what: 'all taken' })
    expect(most).to.equal(2)
    for (const { id } of guests)
      await gateway.request('POST', `/containers/${id}/snapshots/schedule`, { body: { enabled: false } })
  })

  it('go with the container', async () => {
    await isSet(daily)
    expect((await gateway.request('DELETE', `/containers/${guest.id}/delete`)).status).to.equal(202)
    await waitFor(() => agent.guests().every(({ uuid }) => uuid !== guest.uuid), { what: 'the guest gone' })
    nowMs += 2 * dayMs
    agent.domain.snapshots.look()
    expect(await tasks()).to.deep.equal([])
  })
})
