import { expect } from 'chai'
import { rebuildManifest } from './plan-aof.js'

describe('the rewritten manifest of append-only files', () => {
  const base = (sequence: number): string => `appendonly.aof.${sequence}.base.rdb`
  const increment = (sequence: number): string => `appendonly.aof.${sequence}.incr.aof`
  const listed = (names: readonly string[]): string[] | undefined =>
    rebuildManifest(names)
      ?.trim()
      .split('\n')
      .map((line) => line.split(' ')[1]!)

  for (const [what, names, expected] of [
    ['lists a base and its increment', [base(1), increment(1)], [base(1), increment(1)]],
    [
      'lists all increments of the first base in order, as they exist during a rewrite',
      [increment(10), base(1), ...[1, 2, 3, 4, 5, 6, 7, 8, 9].map(increment)],
      [base(1), ...[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(increment)],
    ],
    ['omits an increment of an earlier base', [base(2), increment(1), increment(2)], [base(2), increment(2)]],
    ['lists an increment with a later number than its base', [base(2), increment(5)], [base(2), increment(5)]],
    ['is not created if some increments may be older than the base', [base(2), increment(2), increment(3)], undefined],
    ['is not created if the first increment of the first base is missing', [base(1), increment(2)], undefined],
    ['is not created if an increment is missing', [base(1), increment(1), increment(3)], undefined],
    ['is not created if the base has no increments', [base(3), increment(2)], undefined],
    ['is not created if there are two bases', [base(1), base(2), increment(2)], undefined],
    ['is not created if there is no base', [increment(1)], undefined],
  ] as const)
    it(what, () => expect(listed(names)).to.deep.equal(expected))
})
