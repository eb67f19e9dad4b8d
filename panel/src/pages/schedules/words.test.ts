import { expect } from 'chai'
import { planWords } from './words.ts'

describe('the text for the times of a schedule', () => {
  for (const [hours, key, values] of [
    [1, 'schedules.hourly', {}],
    [6, 'schedules.hours', { hours: 6, time: '03:30' }],
    [24, 'schedules.daily', { time: '03:30' }],
    [36, 'schedules.hours', { hours: 36, time: '03:30' }],
    [48, 'schedules.days', { days: 2, time: '03:30' }],
    [168, 'schedules.weekly', { time: '03:30' }],
    [336, 'schedules.days', { days: 14, time: '03:30' }],
  ] as const)
    it(`is ${key} for an interval of ${hours} hours`, () =>
      expect(planWords({ interval_hours: hours, time: '03:30' })).to.deep.equal({ key, values }))
})
