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
    it(`makes an account’s attempt ${attempts} from one source wait ${waitMs / 1000} s after it`, () => {
      expect(waitAfter(attempts, allowances.pair)).to.equal(waitMs)
    })

  const stranger = { account: 'a', source: '192.0.2.1' }
  for (const [what, attempt, failures, names] of [
    ['a stranger', stranger, 0, ['pair:a:192.0.2.1', 'source:192.0.2.1']],
    ['a stranger under attack', stranger, attackAt, ['pair:a:192.0.2.1', 'source:192.0.2.1']],
    ['a known device, also under attack', { ...stranger, device: 'd:a' }, attackAt, ['device:d:a']],
  ] as const)
    it(`counts ${what}`, () => {
      expect(planBuckets(attempt, 'password', failures).map(({ name }) => name)).to.deep.equal(names)
    })

  it('leaves a stranger fewer attempts while many others fail, but always some', () => {
    const free = [0, attackAt - 1, attackAt, 1_000_000].map(
      (failures) => planBuckets(stranger, 'password', failures)[0]?.allowance.free,
    )
    expect(free).to.deep.equal([5, 5, 2, 2])
  })

  for (const [what, attempt, step, names] of [
    ['codes also for the account', stranger, 'code', ['code-pair:a:192.0.2.1', 'source:192.0.2.1', 'codes:a']],
    ['recovery codes separately', stranger, 'recovery', ['recovery-pair:a:192.0.2.1', 'source:192.0.2.1']],
    ['codes from a known device separately', { ...stranger, device: 'd:a' }, 'code', ['code-device:d:a']],
    ['recovery codes from a known device', { ...stranger, device: 'd:a' }, 'recovery', ['recovery-device:d:a']],
  ] as const)
    it(`counts ${what}`, () => {
      expect(planBuckets(attempt, step, 0).map(({ name }) => name)).to.deep.equal(names)
    })
})
