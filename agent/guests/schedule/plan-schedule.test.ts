import { expect } from 'chai'
import { createTimeFormat, type TimeFormat } from '../../../shared/time.js'
import { noSchedule, type SnapshotSchedule } from '../record/snapshots-and-backups.js'
import { catchUpWithinMs, missedAfterMs, planLook, planSchedule, type ScheduleChange } from './plan-schedule.js'

const berlin = createTimeFormat('Europe/Berlin')
const [minuteMs, dayMs] = [60_000, 86_400_000]

const set = (old: SnapshotSchedule, change: Partial<ScheduleChange>, now: string): SnapshotSchedule =>
  planSchedule(old, { createdBy: 'api:test', ...change }, { nowMs: berlin.parse(now)!, time: berlin })
const daily = { enabled: true, intervalHours: 24, time: '03:30' }

describe('a request that changes a schedule', () => {
  const shown = ({ nextRunMs, firstDay }: SnapshotSchedule): string => `${berlin.format(nextRunMs)} ${firstDay}`.trim()

  for (const [name, change, expected] of [
    ['daily', daily, '2026-05-02 03:30:00 2026-05-02'],
    ['daily, with a time later today', { ...daily, time: '10:30' }, '2026-05-01 10:30:00 2026-05-01'],
    ['every six hours, even before its time of day', { ...daily, intervalHours: 6 }, '2026-05-01 15:30:00 2026-05-02'],
    ['weekly', { ...daily, intervalHours: 168 }, '2026-05-02 03:30:00 2026-05-02'],
    ['daily, without a time of day', { enabled: true, intervalHours: 24 }, '2026-05-02 00:00:00 2026-05-02'],
    ['disabled', { ...daily, enabled: false }, ''],
  ] as const)
    it(`sets the right next run of the schedule (${name})`, () =>
      expect(shown(set(noSchedule, change, '2026-05-01 10:00:00'))).to.equal(expected))

  it('is refused if it enables a schedule without an interval', () =>
    expect(() => set(noSchedule, { enabled: true }, '2026-05-01 10:00:00')).to.throw('interval_hours: is required'))

  it('keeps the fields that it omits, and records its caller', () => {
    const first = set(noSchedule, { ...daily, retention: 3 }, '2026-05-01 10:00:00')
    const off = set(first, { enabled: false, createdBy: 'api:other' }, '2026-05-01 11:00:00')
    expect(off).to.deep.equal({
      ...first,
      enabled: false,
      createdBy: 'api:other',
      firstDay: '',
      nextRunMs: 0,
    })
    expect(set(off, { enabled: true }, '2026-05-01 12:00:00')).to.deep.equal(first)
  })

  it('changes the days of the runs only if the request changes the interval or the time of day', () => {
    const weekly = set(noSchedule, { ...daily, intervalHours: 168 }, '2026-05-01 10:00:00')
    const again = { ...daily, intervalHours: 168 }
    expect(set(weekly, { ...again, retention: 2 }, '2026-05-04 10:00:00')).to.deep.equal({
      ...weekly,
      retention: 2,
    })
    for (const change of [{ time: '04:00' }, { intervalHours: 24 }])
      expect(set(weekly, change, '2026-05-04 10:00:00').firstDay).to.equal('2026-05-05')
  })
})

interface Simulation {
  readonly schedule: SnapshotSchedule
  readonly from: string
  readonly to: string
  /** Local times during which no agent runs. */
  readonly off?: readonly (readonly [from: string, to: string])[]
  readonly held?: readonly [from: string, to: string]
  readonly offsetMs?: number
  readonly time?: TimeFormat
}

/** Simulates an agent that checks every minute. @returns local times of its runs */
function simulate({ schedule, from, to, off = [], held, offsetMs = 0, time = berlin }: Simulation): string[] {
  const instant = (text: string): number => time.parse(text)!
  const within = (ms: number, [begin, end]: readonly [string, string]): boolean =>
    ms >= instant(begin) && ms < instant(end)
  let [present, isFirst] = [schedule, true]
  const runs: string[] = []
  for (let nowMs = instant(from); nowMs < instant(to); nowMs += minuteMs) {
    if (off.some((window) => within(nowMs, window))) {
      isFirst = true
      continue
    }
    const isHeld = held !== undefined && within(nowMs, held)
    const look = planLook(present, { nowMs, offsetMs: () => offsetMs, isHeld, isFirst }, time)
    isFirst = false
    if (look.kind === 'wait') continue
    if (look.kind === 'run') runs.push(time.format(nowMs).slice(0, 16))
    present = { ...present, nextRunMs: look.nextRunMs }
  }
  return runs
}

describe('the runs of a snapshot schedule', () => {
  const days = (month: string, from: number, to: number): string[] =>
    Array.from({ length: to - from + 1 }, (_, index) => `2026-${month}-${String(from + index).padStart(2, '0')}`)

  for (const [name, month, from, to] of [
    ['spring', '03', 20, 31],
    ['autumn', '10', 15, 31],
  ] as const)
    it(`happen daily at their time of day across the clock change in ${name}`, () => {
      const begin = `2026-${month}-${from} 00:00:00`
      const runs = simulate({
        schedule: set(noSchedule, daily, begin),
        from: begin,
        to: `2026-${month}-31 23:59:00`,
      })
      expect(runs).to.deep.equal(days(month, from, to).map((day) => `${day} 03:30`))
    })

  it('happen in each of the 23, 24 or 25 hours of a day if they are hourly', () => {
    for (const [day, hours] of [
      ['2026-03-29', 23],
      ['2026-10-25', 25],
      ['2026-10-26', 24],
    ] as const) {
      const schedule = set(noSchedule, { ...daily, intervalHours: 1 }, `${day} 00:00:00`)
      expect(simulate({ schedule, from: `${day} 00:00:00`, to: `${day} 23:59:59` }), day).to.have.length(hours)
    }
  })

  it('stay on their weekday across both clock changes if they are weekly', () => {
    const schedule = set(noSchedule, { ...daily, intervalHours: 168 }, '2026-03-01 00:00:00')
    const runs = simulate({ schedule, from: '2026-03-01 00:00:00', to: '2026-11-15 00:00:00' })
    expect(runs).to.have.length(37)
    for (const run of runs) expect(new Date(`${run.slice(0, 10)}T12:00Z`).getUTCDay(), run).to.equal(0)
    for (const run of runs) expect(run.slice(11)).to.equal('03:30')
  })

  const begin = '2026-05-01 00:00:00'
  const schedule = set(noSchedule, daily, begin)

  it('happen only once if the host was off for several days', () => {
    const off = [['2026-05-03 01:00:00', '2026-05-12 10:00:00']] as const
    const runs = simulate({ schedule, from: begin, to: '2026-05-14 00:00:00', off, offsetMs: 7 * minuteMs })
    const late = ['2026-05-12 10:07', '2026-05-13 03:30']
    expect(runs).to.deep.equal(['2026-05-01 03:30', '2026-05-02 03:30', ...late])
  })

  it('happen only once even if the host is switched off again before the agent makes up for a missed run', () => {
    const off = [
      ['2026-05-02 01:00:00', '2026-05-04 10:00:00'],
      ['2026-05-04 10:05:00', '2026-05-04 10:06:00'],
      ['2026-05-04 10:08:00', '2026-05-04 12:00:00'],
    ] as const
    const runs = simulate({ schedule, from: begin, to: '2026-05-06 00:00:00', off, offsetMs: 20 * minuteMs })
    expect(runs).to.deep.equal(['2026-05-01 03:30', '2026-05-04 12:20', '2026-05-05 03:30'])
  })

  it('are skipped after a long outage if the next regular run is soon, but happen late after a short outage', () => {
    const off = [['2026-05-02 01:00:00', '2026-05-03 03:10:00']] as const
    const offsetMs = catchUpWithinMs - 1
    const runs = simulate({ schedule, from: begin, to: '2026-05-04 00:00:00', off, offsetMs })
    expect(runs).to.deep.equal(['2026-05-01 03:30', '2026-05-03 03:30'])
    const short = [['2026-05-02 01:00:00', '2026-05-02 03:40:00']] as const
    expect(simulate({ schedule, from: begin, to: '2026-05-03 00:00:00', off: short, offsetMs })).to.deep.equal([
      '2026-05-01 03:30',
      '2026-05-02 03:40',
    ])
  })

  it('happen only once if the host is off during the hour of a clock change', () => {
    for (const [day, from, to] of [
      ['2026-03-29', '2026-03-29 01:30:00', '2026-03-29 03:45:00'],
      ['2026-10-25', '2026-10-25 01:30:00', '2026-10-25 03:45:00'],
    ] as const) {
      const night = set(noSchedule, { ...daily, time: '02:30' }, `${day} 00:00:00`)
      const runs = simulate({
        schedule: night,
        from: `${day} 00:00:00`,
        to: `${day} 23:00:00`,
        off: [[from, to]],
      })
      expect(runs, day).to.have.length(1)
    }
  })

  it('are skipped while the guest is suspended, and are not made up for later', () => {
    const held = ['2026-05-02 00:00:00', '2026-05-05 10:00:00'] as const
    const runs = simulate({ schedule, from: begin, to: '2026-05-07 00:00:00', held })
    expect(runs).to.deep.equal(['2026-05-01 03:30', '2026-05-06 03:30'])
  })

  it('are spread over time if a thousand guests have missed a run', () => {
    const nowMs = berlin.parse('2026-05-09 10:00:00')!
    const looks = Array.from({ length: 1000 }, (_, index) =>
      planLook(schedule, { nowMs, offsetMs: () => index * 1800, isHeld: false, isFirst: true }, berlin),
    )
    const perMinute = new Map<number, number>()
    for (const look of looks) {
      if (look.kind !== 'move') throw new Error(look.kind)
      const minute = Math.floor((look.nextRunMs - nowMs) / minuteMs)
      perMinute.set(minute, (perMinute.get(minute) ?? 0) + 1)
    }
    expect(Math.max(...perMinute.values())).to.be.at.most(34)
    expect(Math.max(...perMinute.keys())).to.be.below(catchUpWithinMs / minuteMs)
  })
})

describe('the decision whether a scheduled run begins, waits or moves to a later time', () => {
  const nowMs = berlin.parse('2026-05-10 10:00:00')!
  const schedule = { ...set(noSchedule, daily, '2026-05-01 00:00:00') }
  const regularMs = berlin.parse('2026-05-11 03:30:00')!
  const at = { nowMs, offsetMs: () => 1, isHeld: false, isFirst: false }

  for (const [name, nextRunMs, more, expected] of [
    ['is due', nowMs, {}, ['run', regularMs]],
    ['is not due yet', regularMs, {}, ['wait']],
    ['is late', nowMs - missedAfterMs, {}, ['run', regularMs]],
    ['was missed', nowMs - missedAfterMs - 1, {}, ['move', nowMs + 1]],
    ['is years away because of a wrong clock', nowMs + 3000 * dayMs, {}, ['move', regularMs]],
    ['is a day later than expected', regularMs + dayMs, {}, ['wait']],
    [
      'is planned two hours too late because of a changed time zone',
      regularMs + 7_200_000,
      { isFirst: true },
      ['move', regularMs],
    ],
    ['is not due yet when the agent starts', regularMs, { isFirst: true }, ['wait']],
    ['makes up for a missed run when the agent starts', nowMs + 5, { isFirst: true }, ['wait']],
  ] as const)
    it(`is "${expected[0]}" for a run that ${name}`, () => {
      const look = planLook({ ...schedule, nextRunMs }, { ...at, ...more }, berlin)
      expect(look.kind === 'wait' ? [look.kind] : [look.kind, look.nextRunMs]).to.deep.equal(expected)
    })
})
