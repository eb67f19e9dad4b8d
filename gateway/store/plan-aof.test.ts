import { expect } from 'chai'
import { rebuildManifest } from './plan-aof.js'

describe('the rebuilt manifest of Redis’ append-only files', () => {
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
      'lists the first base and its ten increments in numerical order (several exist during a rewrite)',
      [increment(10), base(1), ...[1, 2, 3, 4, 5, 6, 7, 8, 9].map(increment)],
      [base(1), ...[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(increment)],
    ],
    ['omits an increment that is older than the base', [base(2), increment(1), increment(2)], [base(2), increment(2)]],
    [
      'lists an increment whose number is higher than the number of its base',
      [base(2), increment(5)],
      [base(2), increment(5)],
    ],
    [
      'is not created if some increments are possibly older than the base',
      [base(2), increment(2), increment(3)],
      undefined,
    ],
    ['is not created if the first increment of the first base is missing', [base(1), increment(2)], undefined],
    [
      'is not created if an increment between two other increments is missing',
      [base(1), increment(1), increment(3)],
      undefined,
    ],
    ['is not created if all increments are older than the base', [base(3), increment(2)], undefined],
    ['is not created if two bases exist', [base(1), base(2), increment(2)], undefined],
    ['is not created if there is no base', [increment(1)], undefined],
  ] as const)
    it(what, () => expect(listed(names)).to.deep.equal(expected))
})
