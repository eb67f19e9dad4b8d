import { expect } from 'chai'
import { begin, daily, dayMs, type ScheduleLab } from './schedule-lab.js'

export interface ScheduleCases {
  /** Returns expected fields of the container and its schedule that differ between snapshots and backups. */
  readonly shown: () => { readonly container: object; readonly schedule: object }
  /** Returns the expected values of fields that only the tested kind has (snapshot or backup). */
  readonly made: () => object
  readonly mostRetention: number
  /** Scopes for snapshots or backups with which an API key must not set a schedule. */
  readonly lesser: readonly string[]
  /** Starts a manual snapshot or backup and keeps it in progress. Resolves with a function that lets it end. */
  readonly holdOne: () => Promise<() => Promise<void>>
}

/** Adds the tests that scheduled snapshots and scheduled backups share. The lab must have a guest. */
export function itHasSchedules(lab: ScheduleLab, cases: ScheduleCases): void {
  const { kind } = lab

  it('can be set, and are shown', async () => {
    const { container, schedule: more } = cases.shown()
    expect(await lab.isSet({ ...daily, retention: 3 })).to.deep.equal({
      id: lab.guest.id,
      name: lab.guest.name,
      [`${kind}_schedule_enabled`]: true,
      [`${kind}_schedule_interval_hours`]: 24,
      [`${kind}_schedule_time`]: '03:30',
      [`${kind}_schedule_retention`]: 3,
      ...container,
    })
    const { created_by: createdBy, ...schedule } = (await lab.read()).schedule
    expect(createdBy).to.match(/^api:/)
    expect(schedule).to.deep.equal({
      enabled: true,
      interval_hours: 24,
      time: '03:30',
      retention: 3,
      last_run: '',
      next_run: '2027-05-04 03:30:00',
      ...more,
    })
  })

  it('keep the fields that a change omits, and show no next run while the schedule is disabled', async () => {
    await lab.isSet({ ...daily, retention: 3 })
    expect(await lab.isSet({ enabled: false })).to.include({ [`${kind}_schedule_enabled`]: false })
    const kept = { time: '03:30', retention: 3, ...cases.shown().schedule }
    expect((await lab.read()).schedule).to.include({ ...kept, next_run: '' })
    await lab.isSet({ enabled: '1', interval_hours: '12', time: '' })
    expect((await lab.read()).schedule).to.include({ ...kept, interval_hours: 12, next_run: '2027-05-03 15:30:00' })
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
    [{ ...daily, retention: cases.mostRetention + 1 }, 'invalid_field', 'retention'],
    [{ ...daily, enabled: 'maybe' }, 'invalid_field', 'enabled'],
  ] as const)
    it(`are refused with the request body ${JSON.stringify(body)}`, async () => {
      const reply = await lab.set(body)
      expect([reply.status, reply.body.code, reply.body.details?.field]).to.deep.equal([400, code, field])
    })

  it('can be set only with the scope for schedules, and only for containers to which the key has access', async () => {
    const other = await lab.gateway.fleet.addGuest({ status: 'stopped', wanted: 'stopped' })
    const bound = await lab.gateway.makeKey({ scopes: [`${kind}:*`], container_uuids: [other.uuid] })
    const reader = await lab.gateway.makeKey({ scopes: [...cases.lesser] })
    expect((await lab.set(daily, bound)).status).to.equal(404)
    expect((await lab.set(daily, reader)).status).to.equal(403)
  })

  it('run once at the planned time, with a task', async () => {
    await lab.isSet(daily)
    await lab.lookAt(lab.nextMs - 1000)
    expect((await lab.read()).copies).to.deep.equal([])
    await lab.runNext()
    const { copies, schedule } = await lab.read()
    expect(copies).to.have.length(1)
    expect(copies[0]).to.include({ scheduled: true, created_by: 'schedule', ...cases.made() })
    expect(schedule).to.include({ last_run: '2027-05-04 03:30:00', next_run: '2027-05-05 03:30:00' })
    const [task] = await lab.tasks()
    expect(task).to.include({ status: 'done', user: 'schedule', task_id: copies[0]!['id'] })
    await lab.lookAt(lab.nowMs + 60_000)
    expect(await lab.tasks()).to.have.length(1)
  })

  it('run only once after several missed runs', async () => {
    await lab.isSet({ ...daily, interval_hours: 1 })
    await lab.lookAt(begin + 30 * dayMs)
    expect(await lab.tasks()).to.deep.equal([])
    expect(lab.nextMs - lab.nowMs).to.be.within(0, 30 * 60_000)
    await lab.runNext()
    await lab.lookAt(lab.nowMs + 1000)
    expect(await lab.tasks()).to.have.length(1)
  })

  it('delay a due run until the end of a running operation on the container', async () => {
    await lab.isSet(daily)
    const release = await cases.holdOne()
    lab.nowMs = lab.nextMs
    lab.look()
    expect(await lab.tasks()).to.deep.equal([])
    await release()
    await lab.lookAt(lab.nowMs + 60_000)
    expect(await lab.tasks()).to.have.length(1)
  })
}
