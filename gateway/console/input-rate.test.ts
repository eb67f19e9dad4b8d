import { expect } from 'chai'
import { InputRate } from './input-rate.js'

describe('the limit of input to a console', () => {
  it('allows a burst, then 64 KiB per second, and another burst after a pause', () => {
    const rate = new InputRate(0)
    const steps = [0, 1_048_576, 0, 0, 65_536, 1000, 1000, 0, 0, 1500, 65_536, 500, 100_000, 1_048_576, 0]
    for (let at = 0; at < steps.length; at += 3) {
      const [nowMs = 0, bytes = 0, waitMs = 0] = steps.slice(at, at + 3)
      expect(rate.take(bytes, nowMs), `at ${nowMs}`).to.equal(waitMs)
    }
  })
})
