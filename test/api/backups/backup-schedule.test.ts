import { expect } from 'chai'
import { memoryTargets } from '../../support/memory/memory-backups.js'
import { itHasSchedules } from '../../support/gateway/schedule-cases.js'
import { daily, ScheduleLab, type Row } from '../../support/gateway/schedule-lab.js'
import { waitFor } from '../../support/wait.js'

describe('backup schedules over HTTP', function () {
  const lab = new ScheduleLab('backup')
  const { set, isSet, read, tasks, isBusy, lookAt, runNext } = lab
  let targetId: string

  before(async () => {
    await lab.start()
  })
  after(() => lab.gateway.close())
  beforeEach(async () => {
    targetId = await addTarget('disk')
    await lab.begin()
    write('first')
  })
  afterEach(async () => {
    for (const name of Object.keys(lab.agent.host.backupFaults)) delete lab.agent.host.backupFaults[name as 'send']
    const { body } = await lab.gateway.request('GET', '/backup-targets')
    for (const { id } of body.data as unknown as Row[])
      await lab.gateway.request('DELETE', `/backup-targets/${String(id)}?force=true`)
  })

  const addTarget = async (name: string): Promise<string> => {
    const body = { name, type: 'local', path: '/srv/backups', encryption_password: 'a-password-of-it' }
    const answer = await lab.gateway.request('POST', '/backup-targets', { body })
    expect(answer.status, answer.text).to.equal(201)
    return answer.body.data.id as string
  }
  const write = (text: string): unknown => lab.agent.host.contents.set(lab.guest.uuid, text)
  const keptAt = (id = targetId): string[] =>
    [...(memoryTargets.get(id)?.get(lab.guest.uuid)?.values() ?? [])].map(({ content }) => content)
  const backUp = async (): Promise<string> => {
    const { body } = await lab.gateway.request('POST', lab.path)
    await waitFor(() => !isBusy(), { what: 'the backup' })
    await lab.gateway.fleet.caughtUp('host-a')
    return body.data.backup_id as string
  }

  itHasSchedules(lab, {
    mostRetention: 100,
    shown: () => ({
      container: { backup_schedule_target_id: targetId },
      schedule: { target_id: targetId, target_name: 'disk' },
    }),
    lesser: ['backup:read', 'backup:create'],
    made: () => ({ target_id: targetId }),
    holdOne: async () => {
      let release = (): void => undefined
      lab.agent.host.backupFaults.send = () => new Promise<void>((resolve) => (release = resolve))
      await lab.gateway.request('POST', lab.path)
      await waitFor(() => (lab.agent.host.snapshots.get(lab.guest.uuid)?.size ?? 0) === 1, {
        what: 'the snapshot',
      })
      return async () => {
        delete lab.agent.host.backupFaults.send
        release()
        await waitFor(() => !lab.isBusy(), { what: 'the backup by hand' })
      }
    },
  })

  it('add their container to the list of the target’s containers even before the first backup', async () => {
    await isSet(daily)
    const { body } = await lab.gateway.request('GET', `/backup-targets/${targetId}/containers`)
    expect((body.data as unknown as Row[]).map(({ uuid }) => uuid)).to.deep.equal([lab.guest.uuid])
  })

  it('are refused with an invalid target', async () => {
    const { status, body } = await set({ ...daily, target_id: 7.5 })
    expect([status, body.code, body.details?.field]).to.deep.equal([400, 'invalid_field', 'target_id'])
  })

  it('require a target id if there are several targets, and refuse an unknown target id', async () => {
    const other = await addTarget('tape')
    const several = await set(daily)
    expect([several.body.code, several.body.details?.field]).to.deep.equal(['missing_field', 'target_id'])
    expect((await set({ ...daily, target_id: 'none' })).body.code).to.equal('backup_target_missing')
    expect(await isSet({ ...daily, target_id: other })).to.include({ backup_schedule_target_id: other })
  })

  it('store backups at the target, and verify them', async () => {
    await isSet(daily)
    await lookAt(lab.nextMs - 1000)
    expect(keptAt()).to.deep.equal([])
    await runNext()
    expect(keptAt()).to.deep.equal(['first'])
    expect((await read()).copies[0]!['verified_at']).to.match(/^20/)
  })

  it('delete their oldest backups if there are more than the retention allows, but never manual backups', async () => {
    const hand = await backUp()
    await isSet({ ...daily, retention: 2 })
    for (const text of ['a', 'b', 'c', 'd']) {
      write(text)
      await runNext()
    }
    expect(keptAt()).to.deep.equal(['first', 'c', 'd'])
    expect((await read()).copies.map(({ id }) => id))
      .to.include(hand)
      .and.to.have.length(3)
  })

  it('delete in the next run the data that a failed run has left at the target', async () => {
    await isSet({ ...daily, retention: 1 })
    lab.agent.host.backupFaults.verify = () => fail()
    lab.agent.host.backupFaults.forget = () => fail()
    await runNext()
    expect([(await read()).copies, keptAt()]).to.deep.equal([[], ['first']])
    expect((await tasks())[0]).to.include({ status: 'failed' })
    for (const name of ['verify', 'forget'] as const) delete lab.agent.host.backupFaults[name]
    write('second')
    await runNext()
    expect(keptAt()).to.deep.equal(['second'])
  })

  it('keep the older backups if the new backup cannot be verified', async () => {
    await isSet({ ...daily, retention: 1 })
    await runNext()
    const [{ id } = {}] = (await read()).copies
    write('second')
    lab.agent.host.backupFaults.verify = () => fail()
    await runNext()
    expect((await read()).copies.map((backup) => backup['id'])).to.deep.equal([id])
    expect(keptAt()).to.deep.equal(['first'])
  })

  it('still run after a restart of the agent', async () => {
    await isSet(daily)
    await lab.agent.restart()
    await lab.gateway.fleet.caughtUp('host-a')
    await runNext()
    expect(keptAt()).to.deep.equal(['first'])
  })

  it('contain the new data of a changed target, and keep the time of their next run', async () => {
    await isSet(daily)
    const before = lab.record.backupSchedule
    const change = { body: { path: '/srv/elsewhere' } }
    expect((await lab.gateway.request('PATCH', `/backup-targets/${targetId}`, change)).status).to.equal(200)
    const { target, ...schedule } = lab.record.backupSchedule
    expect(target).not.to.equal(before.target)
    expect(lab.agent.domain.context.targets.open(lab.guest.uuid, target).place).to.deep.include({
      value: { path: '/srv/elsewhere' },
    })
    expect(schedule).to.deep.include({ nextRunMs: before.nextRunMs, createdBy: before.createdBy })
    const { revision } = lab.record
    await lab.gateway.upkeep.run()
    expect(lab.record.revision).to.equal(revision)
  })

  it('are listed together with snapshot schedules, with the results of their last runs', async () => {
    lab.nowMs = Date.now() - 3 * 3_600_000 // the list finds the task of a run by its time, which is that of the host
    await isSet({ ...daily, interval_hours: 1, retention: 3 })
    const { id, name } = lab.guest
    await lab.gateway.request('POST', `/containers/${id}/snapshots/schedule`, { body: { ...daily, time: '05:00' } })
    const list = async (query: string, key?: string): Promise<Row[]> => {
      const path = `/schedules?container_name=${name}${query}`
      return (await lab.gateway.request('GET', path, key === undefined ? {} : { key })).body.data as Row[]
    }
    const [backup, snapshot] = await list('&sort=kind')
    expect(backup).to.include({ container_id: id, kind: 'backup', enabled: true, interval_hours: 1, retention: 3 })
    expect(backup).to.include({ target_id: targetId, target_name: 'disk', last_run: '', last_result: 'never' })
    expect(snapshot).to.include({ kind: 'snapshot', target_name: '', time: '05:00', last_result: 'never' })
    lab.agent.host.backupFaults.send = () => fail()
    await runNext()
    const [task] = await tasks()
    const { last_run: lastRun, next_run: nextRun } = (await read()).schedule
    const failed = { ...backup, last_run: lastRun, next_run: nextRun, last_result: 'failed' }
    expect(await list('&last_result=failed&enabled=true')).to.deep.equal([
      { ...failed, last_error: task!['error'], last_error_code: task!['error_code'], last_task_id: task!['task_id'] },
    ])
    const reader = await lab.gateway.makeKey({ scopes: ['container:read', 'backup:read'] })
    expect(await list('', reader)).to.deep.equal([failed])
    const other = await lab.gateway.fleet.addGuest({ status: 'stopped', wanted: 'stopped' })
    const bound = await lab.gateway.makeKey({ scopes: ['*'], container_uuids: [other.uuid] })
    expect(await list('', bound)).to.deep.equal([])
  })

  it('prevent the removal of their target, and are disabled on the host if the removal is forced', async () => {
    await isSet(daily)
    const refused = await lab.gateway.request('DELETE', `/backup-targets/${targetId}`)
    expect([refused.status, refused.body.code]).to.deep.equal([409, 'invalid_state'])
    expect((await lab.gateway.request('DELETE', `/backup-targets/${targetId}?force=true`)).status).to.equal(200)
    expect((await read()).schedule).to.include({ enabled: false, next_run: '', target_id: '', time: '03:30' })
    expect(lab.record.backupSchedule.target).to.equal('')
  })

  it('are reported to the gateway without their target, and stored without plain-text passwords', async () => {
    await isSet(daily)
    const shown = lab.gateway.fleet.view.findGuest(lab.guest.uuid)!.guest.backupSchedule
    expect(shown).not.to.have.property('target')
    expect(lab.record.backupSchedule.target).not.to.include('a-password-of-it')
  })
})

function fail(): never {
  throw new Error('no')
}
