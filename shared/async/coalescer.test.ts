import { expect } from 'chai'
import { Coalescer } from './coalescer.js'

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

describe('a coalescer of requests', () => {
  it('never runs twice at the same time, and runs once more for all requests that arrive during a run', async () => {
    let [runs, atOnce] = [0, 0]
    const coalescer = new Coalescer(async () => {
      expect(++atOnce).to.equal(1)
      runs++
      await turn()
      atOnce--
    })
    const first = coalescer.run()
    await Promise.resolve() // the first run has begun
    const others = Array.from({ length: 5 }, () => coalescer.run())
    expect(new Set(others).size).to.equal(1)
    expect(coalescer.isBusy).to.equal(true)
    await Promise.all([first, ...others])
    await coalescer.settled()
    expect([runs, coalescer.isBusy]).to.deep.equal([2, false])
  })

  it('rejects the callers of a failed run, and runs again at the next request', async () => {
    let fails = true
    const coalescer = new Coalescer(() => (fails ? Promise.reject(new Error('no')) : Promise.resolve()))
    expect(await coalescer.run().catch((error: Error) => error.message)).to.equal('no')
    fails = false
    await coalescer.run()
    await coalescer.settled()
  })

  it('runs again if the running function requests another run', async () => {
    let runs = 0
    const coalescer: Coalescer = new Coalescer(async () => {
      if (++runs < 3) void coalescer.run()
    })
    await coalescer.run()
    await turn()
    expect(runs).to.equal(3)
  })
})
