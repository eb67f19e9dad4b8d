import { expect } from 'chai'
import { failedField } from '../test/support/failed-field.js'
import { checkTrafficLimit } from './network-limits.js'

describe('a traffic limit', () => {
  it('is accepted if its values are within bounds or absent', () => {
    checkTrafficLimit({})
    checkTrafficLimit({ monthlyGb: 0, inGb: 1, outGb: 1_000_000_000, throttleMbps: 400_000, resetDay: 31 })
  })
  for (const [wanted, field] of [
    [{ monthlyGb: -1 }, 'monthly_traffic_gb'],
    [{ inGb: 0.5 }, 'traffic_in_gb'],
    [{ outGb: 1_000_000_001 }, 'traffic_out_gb'],
    [{ throttleMbps: 400_001 }, 'traffic_throttle_mbps'],
    [{ resetDay: 32 }, 'traffic_reset_day'],
    [{ resetDay: NaN }, 'traffic_reset_day'],
  ] as const)
    it(`is refused with the fields ${JSON.stringify(wanted)}`, () =>
      expect(failedField(() => checkTrafficLimit(wanted))).to.equal(field))
})
