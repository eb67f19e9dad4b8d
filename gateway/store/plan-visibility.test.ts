import { expect } from 'chai'
import { distrustMs, isVisible, planAnswers } from './plan-visibility.js'

const nowMs = 10_000
/** Monotonic time of the connection to the store. Every other gateway has sent a message since then. */
const long = 0

describe('the required answers of other gateways to a write', () => {
  for (const [name, { trusted = {}, others, connectedMs = long }, from, count, untilMs] of [
    ['are not needed if no other gateway exists', { others: 0 }, [], 0, nowMs],
    ['are those of all known gateways', { trusted: { a: 10_100, b: 10_300 }, others: 2 }, ['a', 'b'], 0, 10_300],
    ['do not include a gateway that has been silent for long', { trusted: { a: 9_999 }, others: 1 }, [], 0, nowMs],
    [
      'include a gateway that may not have noticed the end of its connection',
      { trusted: { a: 10_100 }, others: 0 },
      ['a'],
      0,
      10_100,
    ],
    [
      'are as many as all other gateways, even unknown ones, soon after connecting to the store',
      { trusted: { a: 10_100 }, others: 2, connectedMs: nowMs - 100 },
      ['a'],
      2,
      nowMs - 100 + distrustMs,
    ],
    [
      'are at most as many as the other gateways if all are known, even soon after connecting',
      { trusted: { a: 10_100 }, others: 1, connectedMs: nowMs - 100 },
      ['a'],
      0,
      10_100,
    ],
    [
      'do not include an unknown client of the store that has been silent for some time',
      { others: 3, connectedMs: nowMs - distrustMs },
      [],
      0,
      nowMs,
    ],
  ] as const)
    it(name, () => {
      const trustedUntilMs = new Map(Object.entries<number>(trusted))
      expect(planAnswers({ trustedUntilMs, others, nowMs, connectedMs })).to.deep.equal({ from, count, untilMs })
    })
})

describe('a write', () => {
  it('is visible at all gateways when each listed gateway, and at least the expected number of gateways, has answered', () => {
    const needed = { from: ['a'], count: 2, untilMs: 0 }
    const verdicts = [['a'], ['b', 'c'], ['a', 'b']].map((ids) => isVisible(needed, new Set(ids)))
    expect(verdicts).to.deep.equal([false, false, true])
    expect(isVisible({ from: [], count: 0, untilMs: 0 }, new Set())).to.equal(true)
  })
})
