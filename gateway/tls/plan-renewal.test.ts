import { expect } from 'chai'
import { afterFailure, dueAtMs, isEndNear, isRenewalDue, noAttempts } from './plan-renewal.js'

const hourMs = 3_600_000
const life = { notBeforeMs: 0, notAfterMs: 90 * 24 * hourMs }
const failure = { fingerprint: 'F', error: 'down', retryAfterSeconds: 0 }

describe('the renewal of a certificate', () => {
  it('is due after two thirds of the lifetime, but not during the pause after a failed renewal', () => {
    expect(dueAtMs(life)).to.be.closeTo(60 * 24 * hourMs, 1)
    const after = 60 * 24 * hourMs + 1
    expect(isRenewalDue(life, noAttempts, after - 2)).to.equal(false)
    expect(isRenewalDue(life, noAttempts, after)).to.equal(true)
    expect(isRenewalDue(life, { ...noAttempts, nextMs: after + 1 }, after)).to.equal(false)
  })

  it('waits 1, 2, 4 … 24 hours after repeated failures, and 1 hour again for a different certificate', () => {
    let state = noAttempts
    const pauses = [...Array<undefined>(7)].map(() => {
      state = afterFailure(state, failure, 0)
      return state.nextMs / hourMs
    })
    expect(pauses).to.deep.equal([1, 2, 4, 8, 16, 24, 24])
    expect(afterFailure(state, { ...failure, fingerprint: 'G' }, 0)).to.include({
      failures: 1,
      nextMs: hourMs,
    })
  })

  it('waits as long as the certificate authority requires, but never less than after other failures', () => {
    const next = (retryAfterSeconds: number) => afterFailure(noAttempts, { ...failure, retryAfterSeconds }, 0).nextMs
    expect([next(60), next(3 * 3600)]).to.deep.equal([hourMs, 3 * hourMs])
  })

  it('causes a warning when only a quarter of the lifetime is left', () => {
    expect(isEndNear(life, 67 * 24 * hourMs)).to.equal(false)
    expect(isEndNear(life, 68 * 24 * hourMs)).to.equal(true)
    expect(isEndNear(life, 91 * 24 * hourMs)).to.equal(true)
  })
})
