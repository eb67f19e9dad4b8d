import { expect } from 'chai'
import { itHasSchedules } from '../../support/gateway/schedule-cases.js'
import { daily, dayMs, ScheduleLab } from '../../support/gateway/schedule-lab.js'
import { waitFor } from '../../support/wait.js'

const gib = 1024 ** 3

describe('snapshot schedules', function () {
  const lab = new ScheduleLab('snapshot')
  const { set, isSet, read, tasks, lookAt, runNext } = lab

  before(async () => {
    await lab.start()
  })
  after(() => lab.gateway.close())
  beforeEach(() => lab.begin())
  afterEach(async () => {
    for (const name of Object.keys(lab.agent.host.faults)) delete lab.agent.host.faults[name as 'snapshot']
    if (lab.agent.guests().some(({ uuid }) => uuid === lab.guest.uuid)) await set({ enabled: false })
  })

  const take = async (): Promise<string> => (await lab.gateway.request('POST', lab.path)).body.data.id as string

  itHasSchedules(lab, {
    mostRetention: 1000,
    shown: () => ({ container: {}, schedule: {} }),
    lesser: ['snapshot:read'],
    made: () => ({ size_bytes: 1_000_000 }),
    holdOne: async () => {
      let release: (() => void) | undefined
      lab.agent.host.faults.snapshot = () => new Promise((resolve) => (release = resolve))
      const asked = lab.gateway.request('POST', lab.path)
      await waitFor(() => release !== undefined, { what: 'a snapshot begun' })
      return async () => {
        delete lab.agent.host.faults.snapshot
        release?.()
        expect((await asked).status).to.equal(201)
      }
    },
  })

  it('delete their oldest snapshots when the quota is reached, but never manual snapshots', async () => {
    const hand = await take()
    await isSet(daily)
    for (let run = 0; run < 6; run++) await runNext()
    const { copies, quota } = await read()
    expect(quota).to.equal(5)
    expect(copies.map(({ created_at: at }) => at)).to.deep.equal([
      ...['2027-05-09', '2027-05-08', '2027-05-07', '2027-05-06'].map((day) => `${day} 03:30:00`),
      '2027-05-03 10:00:00',
    ])
    expect(copies.at(-1)!.id).to.equal(hand)
    expect([...lab.agent.host.snapshots.get(lab.guest.uuid)!.keys()]).to.have.members(
      copies.map(({ id }) => id as string),
    )
  })

  it('delete their oldest snapshots if there are more than the retention allows', async () => {
    await isSet({ ...daily, retention: 2 })
    for (let run = 0; run < 4; run++) await runNext()
    expect((await read()).copies.map(({ created_at: at }) => at)).to.deep.equal([
      '2027-05-07 03:30:00',
      '2027-05-06 03:30:00',
    ])
  })

  it('fail and delete no snapshot if manual snapshots fill the quota', async () => {
    await lab.gateway.request('PUT', `${lab.path}/quota`, { body: { snapshot_limit: 2 } })
    const hand = [await take(), await take()]
    await isSet(daily)
    await runNext()
    expect((await tasks())[0]).to.include({ status: 'failed' })
    expect((await tasks())[0]!.error).to.include('may have 2 snapshots')
    expect((await read()).copies.map(({ id }) => id)).to.have.members(hand)
  })

  it('delete their oldest snapshots when the space limit is reached, but never manual snapshots', async () => {
    await lab.gateway.request('PUT', `${lab.path}/quota`, { body: { space_limit_bytes: 3 * gib } })
    const hand = await take()
    await isSet(daily)
    await runNext()
    await lab.gateway.request('PUT', `${lab.path}/quota`, { body: { space_limit_bytes: 2_000_000 } })
    await runNext()
    const { copies } = await read()
    expect(copies).to.have.length(2)
    expect(copies[0]!.created_at).to.equal('2027-05-05 03:30:00')
    expect(copies[1]!.id).to.equal(hand)
  })

  it('fail if manual snapshots use up the space limit', async () => {
    const hand = [await take(), await take()]
    await lab.gateway.request('PUT', `${lab.path}/quota`, { body: { space_limit_bytes: 2_000_000 } })
    await isSet(daily)
    await runNext()
    expect((await tasks())[0]).to.include({ status: 'failed' })
    expect((await tasks())[0]!.error).to.include('the snapshots would retain')
    expect((await read()).copies.map(({ id }) => id)).to.have.members(hand)
  })

  it('keep their only snapshot if the space limit prevents another snapshot', async () => {
    await isSet(daily)
    await runNext()
    await lab.gateway.request('PUT', `${lab.path}/quota`, { body: { space_limit_bytes: 1_000_000 } })
    await runNext()
    expect((await tasks())[0]).to.include({ status: 'failed' })
    expect((await read()).copies.map(({ created_at: at }) => at)).to.deep.equal(['2027-05-04 03:30:00'])
  })

  it('keep the old snapshots if the new snapshot fails', async () => {
    await isSet({ ...daily, retention: 1 })
    await runNext()
    const [first] = (await read()).copies
    lab.agent.host.faults.snapshot = () => Promise.reject(new Error('no'))
    await runNext()
    delete lab.agent.host.faults.snapshot
    expect((await read()).copies).to.deep.equal([first])
    await runNext()
    const { copies } = await read()
    expect(copies).to.have.length(1)
    expect(copies[0]!.id).to.not.equal(first!.id)
  })

  it('keep the new snapshot if an old one cannot be deleted, and delete the old one in the next run', async () => {
    await isSet({ ...daily, retention: 1 })
    await runNext()
    lab.agent.host.faults.deleteSnapshot = () => Promise.reject(new Error('no'))
    await runNext()
    expect((await read()).copies).to.have.length(2)
    delete lab.agent.host.faults.deleteSnapshot
    await runNext()
    expect((await read()).copies).to.have.length(1)
  })

  it('skip their runs while the container is suspended', async () => {
    await isSet(daily)
    await lab.gateway.request('PUT', `/containers/${lab.guest.id}/expiry`, {
      body: { expires_at: '2020-01-01' },
    })
    await runNext()
    await runNext()
    expect(await tasks()).to.deep.equal([])
    expect((await read()).schedule).to.include({ last_run: '', next_run: '2027-05-06 03:30:00' })
    await lab.gateway.request('PUT', `/containers/${lab.guest.id}/expiry`, { body: { expires_at: '' } })
    await runNext()
    expect(await tasks()).to.have.length(1)
  })

  it('run once within half an hour after the start of an agent that missed many runs', async () => {
    await isSet(daily)
    await runNext()
    await lab.gateway.fleet.setHostState('host-a', 'offline')
    const back = lab.nowMs + 20 * dayMs + 7_200_000
    lab.nowMs = back
    await lab.gateway.fleet.setHostState('host-a', 'online')
    expect(await tasks()).to.have.length(1)
    expect(lab.nextMs).to.be.within(back, back + 1_800_000)
    await runNext()
    await lookAt(lab.nowMs + 3_600_000)
    expect(await tasks()).to.have.length(2)
    expect((await read()).schedule.next_run).to.equal('2027-05-25 03:30:00')
  })

  it('take at most two snapshots at a time until all due snapshots are taken', async () => {
    const guests = [lab.guest]
    while (guests.length < 25) guests.push(await lab.gateway.fleet.addGuest({ status: 'stopped', wanted: 'stopped' }))
    for (const { id } of guests)
      await lab.gateway.request('POST', `/containers/${id}/snapshots/schedule`, { body: daily })
    let [atOnce, most] = [0, 0]
    lab.agent.host.faults.snapshot = async () => {
      most = Math.max(most, ++atOnce)
      await new Promise((resolve) => setImmediate(resolve))
      atOnce--
    }
    lab.nowMs = lab.nextMs
    lab.agent.domain.snapshots.look()
    const taken = (): number =>
      guests.filter(({ uuid }) => lab.agent.domain.context.store.get(uuid).snapshots[0]?.state === 'ready').length
    await waitFor(() => taken() === guests.length, { what: 'all taken' })
    expect(most).to.equal(2)
    for (const { id } of guests)
      await lab.gateway.request('POST', `/containers/${id}/snapshots/schedule`, { body: { enabled: false } })
  })

  it('end when the container is deleted', async () => {
    await isSet(daily)
    expect((await lab.gateway.request('DELETE', `/containers/${lab.guest.id}/delete`)).status).to.equal(202)
    await waitFor(() => lab.agent.guests().every(({ uuid }) => uuid !== lab.guest.uuid), {
      what: 'the guest gone',
    })
    lab.nowMs += 2 * dayMs
    lab.agent.domain.snapshots.look()
    expect(await tasks()).to.deep.equal([])
  })
})
