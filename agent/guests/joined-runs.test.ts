import { expect } from 'chai'
import { JoinedRuns } from './joined-runs.js'

describe('joined runs', () => {
  it('are one after another, and one for all who ask while one is under way', async () => {
    let [runs, atOnce] = [0, 0]
    const joined = new JoinedRuns(async () => {
      expect(++atOnce).to.equal(1)
      runs++
      await new Promise(setImmediate)
      atOnce--
    })
    const first = joined.run()
    await Promise.resolve() // the first run has begun
    const others = Array.from({ length: 5 }, () => joined.run())
    expect(new Set(others).size).to.equal(1)
    await Promise.all([first, ...others])
    expect(runs).to.equal(2)
  })

  it('fail for those who asked, and go on', async () => {
    let fails = true
    const joined = new JoinedRuns(() => (fails ? Promise.reject(new Error('no')) : Promise.resolve()))
    const failed = await joined.run().catch((error: Error) => error.message)
    expect(failed).to.equal('no')
    fails = false
    await joined.run()
    await joined.settled()
  })
})
