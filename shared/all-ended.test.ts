import { expect } from 'chai'
import { allEnded } from './all-ended.js'

describe('the function that waits until all given promises have ended', () => {
  it('returns the results of all promises', async () => {
    const [number, text] = await allEnded([Promise.resolve(1), Promise.resolve('two')])
    expect([number + 1, text]).to.deep.equal([2, 'two'])
  })

  it('throws the first error, but only after the last promise has ended', async () => {
    let hasEnded = false
    const slow = new Promise<void>((end) =>
      setImmediate(() => {
        hasEnded = true
        end()
      }),
    )
    const failure = await allEnded([slow, Promise.reject(new Error('one')), Promise.reject(new Error('two'))]).catch(
      (error: unknown) => error,
    )
    expect([(failure as Error).message, hasEnded]).to.deep.equal(['one', true])
  })
})
