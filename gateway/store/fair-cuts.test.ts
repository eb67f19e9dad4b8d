import { expect } from 'chai'
import fc from 'fast-check'
import { planCuts, type Share } from './fair-cuts.js'

/** Creates shares from pairs of a name and a count. The part of a name before `/` is the root. */
const shares = (...of: readonly (readonly [name: string, count: number])[]): Share[] =>
  of.map(([name, count]) => ({ root: name.replace(/\/.*/, ''), ref: name, count }))

describe('the choice of callers that lose entries of the full store', () => {
  for (const [what, before, excess, cuts] of [
    ['includes no caller if no entries must be removed', [['a', 5]], 0, []],
    ['includes the only caller with entries', [['a', 5]], 2, [['a', 2]]],
    [
      'includes only the caller with by far the most entries',
      [
        ['a', 100],
        ['b', 3],
      ],
      50,
      [['a', 50]],
    ],
    [
      'includes the callers with the most entries, so that each of them keeps the same number',
      [
        ['a', 10],
        ['b', 8],
        ['c', 2],
      ],
      6,
      [
        ['a', 4],
        ['b', 2],
      ],
    ],
    [
      'includes the key with the most entries if the keys of its creator together have the most entries',
      [
        ['a/1', 6],
        ['a/2', 4],
        ['b', 7],
      ],
      3,
      [['a/1', 3]],
    ],
    [
      'includes all callers if all entries must be removed',
      [
        ['a', 2],
        ['b', 1],
      ],
      3,
      [
        ['a', 2],
        ['b', 1],
      ],
    ],
  ] as const)
    it(what, () => expect([...planCuts(shares(...before), excess)]).to.deep.equal(cuts))

  it('leaves nearly the same number of entries to each caller that loses entries', () => {
    const counts = fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 8 })
    fc.assert(
      fc.property(counts, fc.integer({ min: 1, max: 100 }), (given, wanted) => {
        const before = shares(...given.map((count, at) => [`c${at}`, count] as const))
        const excess = Math.min(
          wanted,
          given.reduce((a, b) => a + b),
        )
        const cuts = planCuts(before, excess)
        expect([...cuts.values()].reduce((a, b) => a + b, 0)).to.equal(excess)
        const left = before.map(({ ref, count }) => ({ count, left: count - (cuts.get(ref) ?? 0) }))
        const most = Math.max(...left.map((one) => one.left))
        for (const one of left) if (one.left < one.count) expect(one.left).to.be.at.least(most - 1)
      }),
    )
  })
})
