import { expect } from 'chai'
import { inSlices } from './slices.js'

/** Work of `count` steps, each of which takes half a millisecond. */
function* steps(count: number): Generator<void, number> {
  for (let n = 0; n < count; n++) {
    for (const until = performance.now() + 0.5; performance.now() < until;);
    yield
  }
  return count
}

describe('long jobs that run in short slices', () => {
  it('let timers run between the slices of several long jobs', async () => {
    let done = false
    const work = Promise.all(Array.from({ length: 10 }, () => inSlices(steps(40)))).then((counts) => {
      done = true
      return counts
    })
    let turns = 0
    while (!done) {
      await new Promise(setImmediate)
      turns++
    }
    expect(await work).to.deep.equal(Array(10).fill(40))
    expect(turns, 'turns of the event loop for 200 ms of work').to.be.greaterThan(20)
  })

  it('let a short job end first, even if it began later', async () => {
    const ended: string[] = []
    const long = inSlices(steps(100)).then(() => ended.push('long'))
    const short = inSlices(steps(1)).then(() => ended.push('short'))
    await Promise.all([long, short])
    expect(ended).to.deep.equal(['short', 'long'])
  })

  it('reject their promise if they fail, while the other jobs continue', async () => {
    const failing = inSlices(
      (function* (): Generator<void, void> {
        yield
        throw new Error('broken')
      })(),
    )
    const other = inSlices(steps(2))
    expect(String(await failing.catch((error: unknown) => (error as Error).cause))).to.include('broken')
    expect(await other).to.equal(2)
  })
})
