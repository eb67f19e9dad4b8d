import { expect } from 'chai'
import { planLease, type LeaseClaim, type LeaseGrant, type StoredLease } from './plan-lease.js'

const me: LeaseClaim = { holder: 'me', epoch: undefined, above: 0 }

describe('the decision about a lease and its epoch', () => {
  const cases: [string, StoredLease, LeaseClaim, LeaseGrant | undefined][] = [
    ['gives the first holder the epoch 1', { holder: null, counter: 0 }, me, { epoch: 1, counter: 1 }],
    ['gives the next holder a higher epoch', { holder: null, counter: 4 }, me, { epoch: 5, counter: 5 }],
    ['refuses a lease that another gateway holds', { holder: 'other', counter: 4 }, me, undefined],
    [
      'keeps the epoch if the holder renews the lease',
      { holder: 'me', counter: 9 },
      { ...me, epoch: 4 },
      { epoch: 4, counter: 9 },
    ],
    [
      'raises an epoch counter that is behind the epoch of the renewing holder',
      { holder: 'me', counter: 2 },
      { ...me, epoch: 4 },
      { epoch: 4, counter: 4 },
    ],
    [
      'gives the same gateway a new epoch if its lease has expired',
      { holder: null, counter: 4 },
      { ...me, epoch: 4 },
      { epoch: 5, counter: 5 },
    ],
    [
      'gives the holder a new epoch if the holder has not received its present epoch',
      { holder: 'me', counter: 5 },
      me,
      { epoch: 6, counter: 6 },
    ],
    [
      'gives a higher epoch than the epoch that an agent named in a refusal',
      { holder: 'me', counter: 2 },
      { holder: 'me', epoch: 2, above: 7 },
      { epoch: 8, counter: 8 },
    ],
  ]
  for (const [name, stored, claim, grant] of cases)
    it(name, () => expect(planLease(stored, claim)).to.deep.equal(grant))
})
