import { expect } from 'chai'
import { allowances, attackAt, planBuckets, waitAfter } from './plan-login-limits.js'

describe('login limits', () => {
  for (const [attempts, waitMs] of [
    [1, 0],
    [4, 0],
    [5, 60_000],
    [6, 120_000],
    [8, 480_000],
    [11, 3_600_000],
    [1_000_000, 3_600_000],
  ] as const)
    it(`require a wait of ${waitMs / 1000} s after ${attempts} failed attempts of one source at one account`, () => {
      expect(waitAfter(attempts, allowances.pair)).to.equal(waitMs)
    })

  const stranger = { account: 'a', source: '192.0.2.1' }
  for (const [what, attempt, failures, names] of [
    ['attempts from unknown devices by source address', stranger, 0, ['pair:a:192.0.2.1', 'source:192.0.2.1']],
    [
      'attempts from unknown devices by source address, even while the account is under attack',
      stranger,
      attackAt,
      ['pair:a:192.0.2.1', 'source:192.0.2.1'],
    ],
    [
      'attempts from a known device separately, even while the account is under attack',
      { ...stranger, device: 'd:a' },
      attackAt,
      ['device:d:a'],
    ],
  ] as const)
    it(`count ${what}`, () => {
      expect(planBuckets(attempt, 'password', failures).map(({ name }) => name)).to.deep.equal(names)
    })

  it('allow unknown devices five attempts, but only two while many logins to the account fail', () => {
    const free = [0, attackAt - 1, attackAt, 1_000_000].map(
      (failures) => planBuckets(stranger, 'password', failures)[0]?.allowance.free,
    )
    expect(free).to.deep.equal([5, 5, 2, 2])
  })

  for (const [what, attempt, step, names] of [
    [
      'second-factor attempts from an unknown device by source address and account',
      stranger,
      'code',
      ['code-pair:a:192.0.2.1', 'source:192.0.2.1', 'codes:a'],
    ],
    [
      'recovery-code attempts from an unknown device separately from other attempts',
      stranger,
      'recovery',
      ['recovery-pair:a:192.0.2.1', 'source:192.0.2.1'],
    ],
    [
      'second-factor attempts from a known device separately',
      { ...stranger, device: 'd:a' },
      'code',
      ['code-device:d:a'],
    ],
    [
      'recovery-code attempts from a known device separately',
      { ...stranger, device: 'd:a' },
      'recovery',
      ['recovery-device:d:a'],
    ],
  ] as const)
    it(`count ${what}`, () => {
      expect(planBuckets(attempt, step, 0).map(({ name }) => name)).to.deep.equal(names)
    })
})
