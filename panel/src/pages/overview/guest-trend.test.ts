import { expect } from 'chai'
import { planGuestTrend } from './guest-trend.ts'

describe('the trend of the number of guests', () => {
  for (const [name, history, days, percentages, change] of [
    ['shows only the chosen days', [8, 1, 2], 2, [50, 100], 1],
    ['has gaps for unknown days', [null, 4, null, 2], 4, [null, 100, null, 50], -2],
    ['has no change if one day is known', [null, null, 4], 3, [null, null, 100], undefined],
    ['has no change if nothing is known', [null, null], 2, [null, null], undefined],
    ['shows a fleet without guests', [0, 0], 2, [0, 0], 0],
  ] as const)
    it(name, () => expect(planGuestTrend(history, days)).to.deep.include({ percentages, change }))
})
