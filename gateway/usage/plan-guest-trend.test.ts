import { expect } from 'chai'
import { noGuestCounts, planGuestTrend, planRecorded, trendDays, type GuestCountHistory } from './plan-guest-trend.js'

/** Records counts in order. @param records pairs of an hour and a count */
const recorded = (...records: (readonly [hour: number, count: number])[]): GuestCountHistory =>
  records.reduce((history, [hour, count]) => planRecorded(history, hour, count), noGuestCounts)

const mostHours = trendDays * 24

describe('the recorded numbers of guests', () => {
  for (const [name, records, expected] of [
    [
      'contain one number per hour',
      [
        [100, 5],
        [101, 6],
      ],
      { firstHour: 100, counts: [5, 6] },
    ],
    [
      'keep the first number of an hour',
      [
        [100, 5],
        [100, 7],
      ],
      { firstHour: 100, counts: [5] },
    ],
    [
      'have a gap for hours without a record',
      [
        [100, 5],
        [103, 8],
      ],
      { firstHour: 100, counts: [5, null, null, 8] },
    ],
    [
      'keep later hours if the clock was set back',
      [
        [100, 5],
        [102, 8],
        [101, 6],
      ],
      { firstHour: 100, counts: [5, 6, 8] },
    ],
    [
      'start over if the clock was set back before the first hour',
      [
        [100, 5],
        [90, 6],
      ],
      { firstHour: 90, counts: [6] },
    ],
    [
      'start over after a gap longer than the history',
      [
        [100, 5],
        [100 + mostHours, 6],
      ],
      { firstHour: 100 + mostHours, counts: [6] },
    ],
  ] as const)
    it(name, () => expect(recorded(...records)).to.deep.equal(expected))

  it('are limited to 90 days', () => {
    const history = recorded(...Array.from({ length: mostHours + 30 }, (_, at) => [1000 + at, at] as const))
    expect(history.counts).to.have.length(mostHours)
    expect([history.firstHour, history.counts[0], history.counts.at(-1)]).to.deep.equal([1030, 30, mostHours + 29])
  })
})

describe('the trend of the number of guests', () => {
  const shown = (history: GuestCountHistory, nowHour: number) => planGuestTrend(history, nowHour).slice(-3)

  it('has the last number of each day, and ends now', () =>
    expect(shown(recorded([1000, 1], [1023, 2], [1024, 3], [1047, 4], [1071, 5]), 1071)).to.deep.equal([2, 4, 5]))

  it('has gaps for days without a record', () =>
    expect(shown(recorded([1000, 1], [1071, 5]), 1071)).to.deep.equal([1, null, 5]))

  it('contains 0 for a day without guests, but null for a day without a record', () =>
    expect(shown(recorded([1071, 0]), 1071)).to.deep.equal([null, null, 0]))

  it('always has 90 days', () => expect(planGuestTrend(noGuestCounts, 5000)).to.have.length(trendDays))
})
