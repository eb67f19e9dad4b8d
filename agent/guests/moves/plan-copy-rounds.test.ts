import { expect } from 'chai'
import { refuseSlow } from './plan-copy-rounds.js'

const mib = 1024 ** 2
const minuteMs = 60_000

describe('refuseSlow', () => {
  for (const [name, bytes, tookMs] of [
    ['a small increment, however long it took', 8 * mib, 60 * minuteMs],
    ['a large increment that took a few minutes', 9000 * mib, 10 * minuteMs],
  ] as const)
    it(`accepts ${name}`, () => refuseSlow({ bytes, tookMs }))

  it('refuses to stop the guest for as long as a large increment took', () => {
    const newest = { bytes: 9000 * mib, tookMs: 11 * minuteMs }
    expect(() => refuseSlow(newest))
      .to.throw('about 11 minutes')
      .with.property('code', 'move_too_slow')
  })
})
