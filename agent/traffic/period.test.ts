import { expect } from 'chai'
import { createTimeFormat } from '../../shared/time.js'
import { advancePeriod, nextPeriodStart, periodEndMs, periodStart, utcOffsetMinutes } from './period.js'

const utc = createTimeFormat('UTC')
const at = (text: string, zone = 'UTC'): number => createTimeFormat(zone).parseField('at', text)

describe('a traffic period', () => {
  for (const [now, resetDay, zone, start, end] of [
    ['2026-11-21 12:00:00', 1, 'UTC', '2026-11-01', '2026-12-01 00:00:00'],
    ['2026-11-01 00:00:00', 1, 'UTC', '2026-11-01', '2026-12-01 00:00:00'],
    ['2026-10-31 23:59:59', 1, 'UTC', '2026-10-01', '2026-11-01 00:00:00'],
    ['2026-11-14 23:59:59', 15, 'UTC', '2026-10-15', '2026-11-15 00:00:00'],
    ['2026-11-15 00:00:00', 15, 'UTC', '2026-11-15', '2026-12-15 00:00:00'],
    // Each of the next two periods begins in one year and ends in the following year.
    ['2026-01-05 00:00:00', 6, 'UTC', '2025-12-06', '2026-01-06 00:00:00'],
    ['2026-12-28 10:00:00', 28, 'UTC', '2026-12-28', '2027-01-28 00:00:00'],
    // The next periods begin or end in a February of 28 or 29 days.
    ['2028-02-29 23:59:59', 1, 'UTC', '2028-02-01', '2028-03-01 00:00:00'],
    ['2028-02-29 23:59:59', 28, 'UTC', '2028-02-28', '2028-03-28 00:00:00'],
    ['2027-02-28 00:00:00', 28, 'UTC', '2027-02-28', '2027-03-28 00:00:00'],
    // In a shorter month, a reset day from 29 to 31 means the last day of the month.
    ['2027-02-27 23:59:59', 29, 'UTC', '2027-01-29', '2027-02-28 00:00:00'],
    ['2027-02-28 00:00:00', 29, 'UTC', '2027-02-28', '2027-03-29 00:00:00'],
    ['2027-03-15 00:00:00', 30, 'UTC', '2027-02-28', '2027-03-30 00:00:00'],
    ['2028-02-29 00:00:00', 31, 'UTC', '2028-02-29', '2028-03-31 00:00:00'],
    ['2027-04-29 23:59:59', 31, 'UTC', '2027-03-31', '2027-04-30 00:00:00'],
    ['2027-04-30 00:00:00', 31, 'UTC', '2027-04-30', '2027-05-31 00:00:00'],
    ['2027-01-30 12:00:00', 31, 'UTC', '2026-12-31', '2027-01-31 00:00:00'],
    // Daylight saving time begins or ends within the next months. Periods still end at local midnight.
    ['2026-03-29 03:30:00', 1, 'Europe/Berlin', '2026-03-01', '2026-04-01 00:00:00'],
    ['2026-10-25 02:30:00', 25, 'Europe/Berlin', '2026-10-25', '2026-11-25 00:00:00'],
    // The month begins later than in UTC in a zone west of it, and earlier in a zone east of it.
    ['2026-11-30 23:59:59', 1, 'America/New_York', '2026-11-01', '2026-12-01 00:00:00'],
    ['2026-12-01 00:00:00', 1, 'Pacific/Kiritimati', '2026-12-01', '2027-01-01 00:00:00'],
  ] as const)
    it(`lasts from ${start} to ${end} if it is ${now} in ${zone} and the reset day is ${resetDay}`, () => {
      const time = createTimeFormat(zone)
      expect(periodStart(at(now, zone), resetDay, time)).to.equal(start)
      expect(time.format(periodEndMs(start, resetDay, time))).to.equal(end)
      expect(nextPeriodStart(start, resetDay)).to.equal(end.slice(0, 10))
    })

  for (const [zone, at, minutes] of [
    ['UTC', '2026-12-01', 0],
    ['Europe/Berlin', '2026-04-01', 120],
    ['Europe/Berlin', '2026-12-01', 60],
    ['Asia/Kolkata', '2026-12-01', 330],
    ['America/St_Johns', '2026-12-01', -210],
    ['Pacific/Kiritimati', '2026-12-01', 840],
  ] as const)
    it(`is computed with an offset of ${minutes} minutes from UTC in ${zone} on ${at}`, () => {
      const time = createTimeFormat(zone)
      expect(utcOffsetMinutes(time.parseField('at', `${at} 00:00:00`), time)).to.equal(minutes)
    })

  it('ends at the first instant of the day if the clock skips midnight', () => {
    // In Havana, clocks go forward from 00:00 to 01:00 on 8 March 2026.
    const time = createTimeFormat('America/Havana')
    const end = periodEndMs('2026-02-08', 8, time)
    expect(periodStart(end, 8, time)).to.equal('2026-03-08')
    expect(periodStart(end - 1, 8, time)).to.equal('2026-02-08')
  })

  it('ends at the first midnight if midnight occurs twice', () => {
    // In Havana, clocks go back from 01:00 to 00:00 on 1 November 2026.
    const time = createTimeFormat('America/Havana')
    const end = periodEndMs('2026-10-01', 1, time)
    expect(periodStart(end - 1, 1, time)).to.equal('2026-10-01')
    for (const hours of [0, 1, 2]) expect(periodStart(end + hours * 3_600_000, 1, time)).to.equal('2026-11-01')
  })
})

const startAt = (nowMs: number, day: number): string => periodStart(nowMs, day, utc)

describe('the monthly reset of a guest’s traffic count', () => {
  const advance = (counted: [start: string, left?: string] | undefined, now: string, resetDay: number) => {
    const [periodStart = '', periodLeft = ''] = counted ?? []
    const nowMs = at(`${now} 23:59:59`)
    return advancePeriod(counted && { periodStart, periodLeft }, resetDay, (day) => startAt(nowMs, day))
  }

  for (const [name, counted, now, resetDay, periodStart, periodLeft, reset] of [
    ['if no traffic was counted yet', undefined, '2026-11-21', 1, '2026-11-01', '', true],
    ['in the month in which traffic was last counted', ['2026-11-01'], '2026-11-21', 1, '2026-11-01', '', false],
    ['in the last second of the month', ['2026-11-01'], '2026-11-30', 1, '2026-11-01', '', false],
    ['in a new month', ['2026-11-01'], '2026-12-01', 1, '2026-12-01', '', true],
    ['after several months', ['2026-11-01'], '2027-04-15', 1, '2027-04-01', '', true],
    [
      'if the reset day is changed to a later day of the month',
      ['2026-11-01'],
      '2026-11-21',
      25,
      '2026-10-25',
      '',
      false,
    ],
    [
      'on the new reset day after the reset day was changed to a later day of the month',
      ['2026-10-25'],
      '2026-11-25',
      25,
      '2026-11-25',
      '',
      true,
    ],
    [
      'if the reset day is changed to a day of the month that has passed',
      ['2026-10-25'],
      '2026-11-21',
      5,
      '2026-11-05',
      '',
      false,
    ],
    [
      'in the next month, on the new reset day, after a change of the reset day to a day that had passed',
      ['2026-11-05'],
      '2026-12-05',
      5,
      '2026-12-05',
      '',
      true,
    ],
    [
      'if the reset day is changed after a month in which the agent did not run',
      ['2026-11-01'],
      '2026-12-20',
      15,
      '2026-12-15',
      '',
      true,
    ],
    [
      'if the reset day is changed to a later day and a new month has begun',
      ['2026-11-01'],
      '2026-12-02',
      15,
      '2026-11-15',
      '',
      true,
    ],
    [
      'on the last day of a short month if the reset day is 31',
      ['2027-01-31'],
      '2027-02-28',
      31,
      '2027-02-28',
      '',
      true,
    ],
    [
      'on day 30 of the month after a short month if the reset day is 31',
      ['2027-02-28'],
      '2027-03-30',
      31,
      '2027-02-28',
      '',
      false,
    ],
    [
      'on day 31 of the month after a short month if the reset day is 31',
      ['2027-02-28'],
      '2027-03-31',
      31,
      '2027-03-31',
      '',
      true,
    ],
    [
      'if the reset day is changed from 31 to an earlier day after a short month',
      ['2027-02-28'],
      '2027-03-10',
      5,
      '2027-03-05',
      '',
      false,
    ],
    [
      'if the reset day is changed to 31 on the last day of a short month',
      ['2027-02-05'],
      '2027-02-28',
      31,
      '2027-02-28',
      '',
      false,
    ],
    // The clock is set back by a month, and then forward again.
    ['if the clock is set back by a month', ['2026-12-01'], '2026-11-21', 1, '2026-12-01', '', false],
    [
      'when a clock that was set back by a month is right again',
      ['2026-12-01'],
      '2026-12-03',
      1,
      '2026-12-01',
      '',
      false,
    ],
    [
      'if the reset day is changed while the clock is set back',
      ['2026-11-01'],
      '2026-10-02',
      25,
      '2026-11-01',
      '',
      false,
    ],
    // The correction of a clock that was years ahead does not reset the count. The start of the next month resets it.
    [
      'if a clock that was years ahead is corrected',
      ['2031-01-01'],
      '2026-11-21',
      1,
      '2026-11-01',
      '2031-01-01',
      false,
    ],
    [
      'if a clock that was two months ahead is corrected',
      ['2027-01-01'],
      '2026-11-21',
      1,
      '2026-11-01',
      '2027-01-01',
      false,
    ],
    [
      'if a clock that was ahead into the next year is corrected',
      ['2027-02-01'],
      '2026-12-21',
      1,
      '2026-12-01',
      '2027-02-01',
      false,
    ],
    [
      'if the reset day is changed when a clock that was years ahead is corrected',
      ['2031-01-01'],
      '2026-11-21',
      25,
      '2026-10-25',
      '2031-01-01',
      false,
    ],
    [
      'in the rest of the month in which the clock was corrected',
      ['2026-11-01', '2031-01-01'],
      '2026-11-30',
      1,
      '2026-11-01',
      '2031-01-01',
      false,
    ],
    [
      'at the start of the next month after a correction of the clock',
      ['2026-11-01', '2031-01-01'],
      '2026-12-01',
      1,
      '2026-12-01',
      '',
      true,
    ],
    // A clock that is reset to 1971 and then corrected does not reset the count.
    ['if the clock is reset to 1971', ['2026-11-01'], '1971-01-02', 1, '1971-01-01', '2026-11-01', false],
    [
      'if the clock is reset from 1999 to 1971',
      ['1999-01-01', '2026-11-01'],
      '1971-01-02',
      1,
      '1971-01-01',
      '2026-11-01',
      false,
    ],
    [
      'if a clock that was reset to 1971 is corrected in the same month',
      ['1971-01-01', '2026-11-01'],
      '2026-11-21',
      1,
      '2026-11-01',
      '',
      false,
    ],
    [
      'if the reset day is changed when a clock that was reset to 1971 is corrected',
      ['1971-01-01', '2026-11-01'],
      '2026-11-21',
      25,
      '2026-10-25',
      '',
      false,
    ],
    [
      'if a clock that was reset to 1971 is corrected a month later',
      ['1971-01-01', '2026-11-01'],
      '2026-12-01',
      1,
      '2026-12-01',
      '',
      true,
    ],
  ] as const)
    it(`${reset ? 'happens' : 'does not happen'} ${name}`, () =>
      expect(advance(counted as [string] | undefined, now, resetDay)).to.deep.equal({ periodStart, periodLeft, reset }))

  for (const [name, days, end, wanted] of [
    [
      'changes back and forth at the end of a month',
      ['2026-11-30', '2026-12-01', '2026-11-30', '2026-12-01', '1999-01-01', '2026-12-31', '2026-11-30'],
      '2026-12-01',
      1,
    ],
    [
      'begins in 1971 after each boot',
      ['1971-06-01', '2026-11-30', '1971-06-01', '2026-12-01', '1971-06-01', '2026-12-02', '2026-12-31'],
      '2026-12-01',
      1,
    ],
    [
      'was years ahead and is corrected',
      ['2031-01-05', '2026-11-30', '2026-12-01', '2026-12-31', '2027-01-01'],
      '2027-01-01',
      3,
    ],
  ] as const)
    it(`happens ${wanted === 1 ? 'once' : `${wanted} times`} if the clock ${name}`, () => {
      let counted = { periodStart: '2026-11-01', periodLeft: '' }
      let resets = 0
      for (const day of days) {
        const { reset, ...advanced } = advancePeriod(counted, 1, (resetDay) => startAt(at(`${day} 12:00:00`), resetDay))
        counted = advanced
        if (reset) resets += 1
      }
      expect([counted.periodStart, resets]).to.deep.equal([end, wanted])
    })
})
