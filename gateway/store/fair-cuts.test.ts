import { expect } from 'chai'
import fc from 'fast-check'
import { planCuts, type Share } from './fair-cuts.js'

/** Creates shares of callers from names `root/ref` and counts. */
const shares = (...of: readonly (readonly [name: string, count: number])[]): Share[] =>
  of.map(([name, count]) => ({ root: name.replace(/\/.*/, ''), ref: name, count }))

describe('callers that lose entries', () => {
  for (const [what, before, excess, cuts] of [
    ['nobody if there is space', [['a', 5]], 0, []],
    ['one caller if only one has entries', [['a', 5]], 2, [['a', 2]]],
    [
      'the caller with the most entries',
      [
        ['a', 100],
        ['b', 3],
      ],
      50,
      [['a', 50]],
    ],
    [
      'several callers with the most entries, down to one level',
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
      'a tree of keys together, and in it the key with the most entries',
      [
        ['a/1', 6],
        ['a/2', 4],
        ['b', 7],
      ],
      3,
      [['a/1', 3]],
    ],
    [
      'everybody if everything must be cut',
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

  it('never include a caller with less than another caller keeps', () => {
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
