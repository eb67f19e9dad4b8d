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
    it(`require a wait of ${waitMs / 1000} s after attempt ${attempts} from one source at an account`, () => {
      expect(waitAfter(attempts, allowances.pair)).to.equal(waitMs)
    })

  const stranger = { account: 'a', source: '192.0.2.1' }
  for (const [what, attempt, failures, names] of [
    ['an attempt of a stranger for the source, and for the pair of account and source', stranger, 0, ['pair:a:192.0.2.1', 'source:192.0.2.1']],
    ['an attempt of a stranger for the source and the pair also while the account is under attack', stranger, attackAt, ['pair:a:192.0.2.1', 'source:192.0.2.1']],
    ['an attempt of a known device only for this device, even under attack', { ...stranger, device: 'd:a' }, attackAt, ['device:d:a']],
  ] as const)
    it(`count ${what}`, () => {
      expect(planBuckets(attempt, 'password', failures).map(({ name }) => name)).to.deep.equal(names)
    })

  it('allow strangers fewer attempts, but never none, while many attempts at the account fail', () => {
    const free = [0, attackAt - 1, attackAt, 1_000_000].map(
      (failures) => planBuckets(stranger, 'password', failures)[0]?.allowance.free,
    )
    expect(free).to.deep.equal([5, 5, 2, 2])
  })

  for (const [what, attempt, step, names] of [
    ['a code of a stranger also for the account', stranger, 'code', ['code-pair:a:192.0.2.1', 'source:192.0.2.1', 'codes:a']],
    ['a recovery code separately from other codes', stranger, 'recovery', ['recovery-pair:a:192.0.2.1', 'source:192.0.2.1']],
    ['a code from a known device separately from strangers', { ...stranger, device: 'd:a' }, 'code', ['code-device:d:a']],
    ['a recovery code from a known device separately from strangers', { ...stranger, device: 'd:a' }, 'recovery', ['recovery-device:d:a']],
  ] as const)
    it(`count ${what}`, () => {
      expect(planBuckets(attempt, step, 0).map(({ name }) => name)).to.deep.equal(names)
    })
})
