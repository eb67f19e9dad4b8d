import { expect } from 'chai'
import { KeyedDeferred } from './keyed-deferred.js'

describe('a deferred promise per key', () => {
  const messageOf = (error: Error): string => error.message

  it('is settled only once, and only for its key', async () => {
    const deferred = new KeyedDeferred<number>()
    const waits = ['a', 'a', 'b', 'c', 'd'].map((key) => deferred.wait(key).catch(messageOf))
    deferred.resolve('a', 1)
    deferred.resolve('a', 2)
    deferred.reject('b', new Error('refused'))
    deferred.resolve('nobody waits', 3)
    deferred.rejectAll(new Error('closed'))
    expect(await Promise.all(waits)).to.deep.equal([1, 1, 'refused', 'closed', 'closed'])
  })
})
