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
      'lists all increments of the first base in order, as during a rewrite',
      [increment(10), base(1), ...[1, 2, 3, 4, 5, 6, 7, 8, 9].map(increment)],
      [base(1), ...[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(increment)],
    ],
    ['omits an increment of an earlier base', [base(2), increment(1), increment(2)], [base(2), increment(2)]],
    ['lists one increment after rewrites that failed', [base(2), increment(5)], [base(2), increment(5)]],
    ['refuses increments that may be older than the base', [base(2), increment(2), increment(3)], undefined],
    ['refuses a first base without its first increment', [base(1), increment(2)], undefined],
    ['refuses a gap', [base(1), increment(1), increment(3)], undefined],
    ['refuses a base without increments', [base(3), increment(2)], undefined],
    ['refuses two bases', [base(1), base(2), increment(2)], undefined],
    ['refuses increments without a base', [increment(1)], undefined],
  ] as const)
    it(what, () => expect(listed(names)).to.deep.equal(expected))
})
