import { expect } from 'chai'
import { perMinute, perSecond, RateLimit } from './rate-limit.js'

describe('a rate limit', () => {
  it('allows a burst of attempts, then one attempt per interval', () => {
    const limit = new RateLimit(perSecond(10))
    const allowed = (nowMs: number) => limit.take('a', nowMs) === 0
    expect(Array.from({ length: 11 }, () => allowed(1000))).to.deep.equal([...Array(10).fill(true), false])
    expect([allowed(1099), allowed(1100), allowed(1100), allowed(1200)]).to.deep.equal([false, true, false, true])
    expect(Array.from({ length: 11 }, () => allowed(9000)).filter(Boolean)).to.have.length(10)
  })

  it('counts each caller separately, and reports the waiting time and the remaining attempts', () => {
    const limit = new RateLimit(perMinute(2))
    expect(limit.left('a', 0)).to.deep.equal({ attempts: 2, fullInMs: 0 })
    expect([limit.take('a', 0), limit.take('a', 0), limit.take('a', 0)]).to.deep.equal([0, 0, 30_000])
    expect(limit.left('a', 0)).to.deep.equal({ attempts: 0, fullInMs: 60_000 })
    expect(limit.take('b', 0)).to.equal(0)
    limit.giveBack('a')
    expect([limit.take('a', 0), limit.take('a', 30_000)]).to.deep.equal([0, 0])
  })

  it('remembers only a limited number of callers', () => {
    const limit = new RateLimit(perMinute(1))
    for (let i = 0; i < 60_000; i++) limit.take(`caller ${i}`, 0)
    expect(limit.take('caller 59999', 0)).to.be.greaterThan(0)
    expect(limit.take('caller 0', 0)).to.equal(0)
  })
})
