import { expect } from 'chai'
import { distrustMs, isVisible, planAnswers } from './plan-visibility.js'

const nowMs = 10_000
/** Value of `connectedMs` so long ago that every other serving gateway has sent a message since then. */
const long = 0

describe('the required answers of other gateways to a write', () => {
  for (const [name, { trusted = {}, others, connectedMs = long }, from, count, untilMs] of [
    ['are not needed if no other gateway exists', { others: 0 }, [], 0, nowMs],
    ['are those of all known gateways', { trusted: { a: 10_100, b: 10_300 }, others: 2 }, ['a', 'b'], 0, 10_300],
    [
      'do not include the answer of a gateway that has been silent for too long',
      { trusted: { a: 9_999 }, others: 1 },
      [],
      0,
      nowMs,
    ],
    [
      'include the answer of a gateway that has possibly not noticed the loss of its connection to the store',
      { trusted: { a: 10_100 }, others: 0 },
      ['a'],
      0,
      10_100,
    ],
    [
      'include an answer of each connected gateway, even an unknown one, soon after this gateway has connected',
      { trusted: { a: 10_100 }, others: 2, connectedMs: nowMs - 100 },
      ['a'],
      2,
      nowMs - 100 + distrustMs,
    ],
    [
      'are only those of known gateways if no unknown gateway is connected, even soon after this gateway has connected',
      { trusted: { a: 10_100 }, others: 1, connectedMs: nowMs - 100 },
      ['a'],
      0,
      10_100,
    ],
    [
      'do not include answers of unknown clients of the store after this gateway has been connected for some time',
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

describe('a write to the store', () => {
  it('counts as visible at all gateways when all required gateways, and enough in total, have answered', () => {
    const needed = { from: ['a'], count: 2, untilMs: 0 }
    const verdicts = [['a'], ['b', 'c'], ['a', 'b']].map((ids) => isVisible(needed, new Set(ids)))
    expect(verdicts).to.deep.equal([false, false, true])
    expect(isVisible({ from: [], count: 0, untilMs: 0 }, new Set())).to.equal(true)
  })
})
