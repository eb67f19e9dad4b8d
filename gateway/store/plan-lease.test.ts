import { expect } from 'chai'
import { planLease, type LeaseClaim, type LeaseGrant, type StoredLease } from './plan-lease.js'

const me: LeaseClaim = { holder: 'me', epoch: undefined, above: 0 }

describe('the plan of a lease', () => {
  const cases: [string, StoredLease, LeaseClaim, LeaseGrant | undefined][] = [
    ['the first holder gets epoch 1', { holder: null, counter: 0 }, me, { epoch: 1, counter: 1 }],
    ['the next holder gets a higher epoch', { holder: null, counter: 4 }, me, { epoch: 5, counter: 5 }],
    ['a lease of another gateway is refused', { holder: 'other', counter: 4 }, me, undefined],
    ['a renewal keeps the epoch', { holder: 'me', counter: 9 }, { ...me, epoch: 4 }, { epoch: 4, counter: 9 }],
    ['a renewal repairs a lost counter', { holder: 'me', counter: 2 }, { ...me, epoch: 4 }, { epoch: 4, counter: 4 }],
    [
      'an expired lease of the same gateway gets a new epoch',
      { holder: null, counter: 4 },
      { ...me, epoch: 4 },
      { epoch: 5, counter: 5 },
    ],
    ['an attempt without a known result is not continued', { holder: 'me', counter: 5 }, me, { epoch: 6, counter: 6 }],
    [
      'an epoch that an agent refused is exceeded',
      { holder: 'me', counter: 2 },
      { holder: 'me', epoch: 2, above: 7 },
      { epoch: 8, counter: 8 },
    ],
  ]
  for (const [name, stored, claim, grant] of cases)
    it(name, () => expect(planLease(stored, claim)).to.deep.equal(grant))
})
