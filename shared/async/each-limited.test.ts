import { expect } from 'chai'
import { eachLimited } from './each-limited.js'

describe('the function that processes a list with limited concurrency', () => {
  const items = [0, 1, 2, 3, 4, 5, 6]

  for (const [limit, most] of [
    [1, 1],
    [3, 3],
    [20, 7],
  ] as const)
    it(`starts to process the items in order, at most ${limit} at the same time`, async () => {
      const done: number[] = []
      let [running, highest] = [0, 0]
      await eachLimited(items, { limit }, async (item) => {
        done.push(item)
        highest = Math.max(highest, ++running)
        await new Promise(setImmediate)
        running--
      })
      expect([done, highest]).to.deep.equal([items, most])
    })

  it('skips the remaining items as soon as the signal is aborted', async () => {
    const abort = new AbortController()
    const done: number[] = []
    await eachLimited(items, { limit: 2, signal: abort.signal }, async (item) => {
      done.push(item)
      if (item === 2) abort.abort()
      await new Promise(setImmediate)
    })
    expect(done.at(-1)).to.be.within(2, 3)
  })
})
