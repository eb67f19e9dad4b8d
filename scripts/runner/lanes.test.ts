import { expect } from 'chai'
import { setImmediate as turn } from 'node:timers/promises'
import type { Chain, JobKind } from './jobs.js'
import { runInLanes } from './lanes.js'

const chain = (group: string, kind: JobKind, lanes = 1): Chain => ({
  group,
  kind,
  lanes,
  jobs: [],
  seconds: 1,
})

/** Runs chains that take one unit of time each. @returns for each unit of time, the groups of the running chains */
async function turnsOf(chains: readonly Chain[], lanes: { count: number; computing: number }): Promise<string[]> {
  const running = new Set<string>()
  const seen = new Set<string>()
  await runInLanes(chains, lanes, async ({ group }) => {
    running.add(group)
    await turn()
    seen.add([...running].sort().join(' '))
    await turn()
    running.delete(group)
  })
  return [...seen]
}

describe('lanes of the test runner (slots for parallel jobs)', () => {
  for (const [name, chains, lanes, turns] of [
    [
      'run as many chains of jobs at the same time as there are lanes, in the given order',
      [chain('a', 'host'), chain('b', 'host'), chain('c', 'host')],
      { count: 2, computing: 0 },
      ['a b', 'c'],
    ],
    [
      'prefer a chain of CPU-bound jobs while fewer of them run than configured',
      [chain('a', 'host'), chain('b', 'host'), chain('c', 'compute')],
      { count: 2, computing: 1 },
      ['a c', 'b'],
    ],
    [
      'run more chains of CPU-bound jobs than configured if no other chains wait',
      [chain('a', 'compute'), chain('b', 'compute')],
      { count: 2, computing: 1 },
      ['a b'],
    ],
    [
      'run fewer chains of jobs at the same time while one of them occupies two lanes',
      [chain('a', 'host', 2), chain('b', 'host'), chain('c', 'host')],
      { count: 3, computing: 0 },
      ['a b', 'c'],
    ],
    [
      'stay free until the next chain of jobs has the two lanes that it needs',
      [chain('a', 'host'), chain('b', 'host', 2), chain('c', 'host')],
      { count: 2, computing: 0 },
      ['a', 'b', 'c'],
    ],
    [
      'run a chain of jobs that needs more lanes than exist as soon as no other chain runs',
      [chain('a', 'host', 2), chain('b', 'host')],
      { count: 1, computing: 0 },
      ['a', 'b'],
    ],
    ['end immediately if no chain of jobs is given', [], { count: 2, computing: 1 }, []],
  ] as const)
    it(name, async () => expect(await turnsOf(chains, lanes)).to.deep.equal(turns))
})
