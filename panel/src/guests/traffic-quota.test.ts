import { expect } from 'chai'
import type { TrafficUsage } from '../api/types.ts'
import { quotaUses, quotaWarning } from './traffic-quota.ts'

const traffic = (fields: Partial<TrafficUsage>): TrafficUsage =>
  ({
    ...{ mode: 'total', limit_gb: 0, in_limit_gb: 0, out_limit_gb: 0, used_pct: 0 },
    ...{ total_used_bytes: 30, rx_used_bytes: 10, tx_used_bytes: 20 },
    ...fields,
  }) as TrafficUsage
const received = { traffic: 'received', usedBytes: 10 }
const sent = { traffic: 'sent', usedBytes: 20 }

describe('the quotas of a guest', () => {
  for (const [name, fields, uses] of [
    ['do not exist without a limit', {}, []],
    ['ignore limits of single directions in total mode', { in_limit_gb: 5 }, []],
    ['count all traffic in total mode', { limit_gb: 7 }, [{ traffic: 'total', usedBytes: 30, limitGb: 7 }]],
    ['ignore the total limit in split mode', { mode: 'split', limit_gb: 7 }, []],
    [
      'count each direction in split mode, also an unlimited one',
      { mode: 'split', out_limit_gb: 3 },
      [
        { ...received, limitGb: 0 },
        { ...sent, limitGb: 3 },
      ],
    ],
  ] as const)
    it(name, () => expect(quotaUses(traffic(fields))).to.deep.equal(uses))
})

describe('the warning of a quota', () => {
  for (const [percent, limit, warning] of [
    [79.9, 1, undefined],
    [80, 1, 80],
    [85.04, 1, 85],
    [99.9, 1, 99],
    [100, 1, 100],
    [85, 0, undefined],
  ] as const)
    it(`is ${warning ?? 'absent'} at ${percent} % of ${limit === 0 ? 'no quota' : 'a quota'}`, () =>
      expect(quotaWarning(traffic({ used_pct: percent, limit_gb: limit, action: 'throttle' }))).to.equal(warning))

  for (const [percent, warning] of [
    [99, 99],
    [100, undefined],
  ] as const)
    it(`is ${warning ?? 'absent'} at ${percent} % of a quota that stops the guest`, () =>
      expect(quotaWarning(traffic({ used_pct: percent, limit_gb: 1, action: 'stop' }))).to.equal(warning))
})
