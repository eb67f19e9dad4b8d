import { expect } from 'chai'
import { refuseSlow } from './plan-copy-rounds.js'

const mib = 1024 ** 2
const minuteMs = 60_000

describe('the rule that refuses moves with a long downtime of the guest', () => {
  for (const [name, bytes, tookMs] of [
    ['a small increment, no matter how long its transfer took', 8 * mib, 60 * minuteMs],
    ['a large increment that took a few minutes', 9000 * mib, 10 * minuteMs],
  ] as const)
    it(`does not apply to ${name}`, () => refuseSlow({ bytes, tookMs }))

  it('applies to a move whose newest increment was large and took 11 minutes to transfer', () => {
    const newest = { bytes: 9000 * mib, tookMs: 11 * minuteMs }
    expect(() => refuseSlow(newest))
      .to.throw('about 11 minutes')
      .with.property('code', 'move_too_slow')
  })
})
