import { expect } from 'chai'
import { KeyedCondition } from './keyed-condition.js'

const long = 60_000

describe('the wait until a condition is true for a key', () => {
  const watched = (condition: KeyedCondition, key: string, isOver: () => boolean, timeoutMs = long) => {
    const wait = { isOver: false, ended: Promise.resolve() }
    wait.ended = condition.wait(key, timeoutMs, isOver).then(() => void (wait.isOver = true))
    return wait
  }
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

  it('ends immediately if the condition is already true', async () => {
    await new KeyedCondition().wait('a', long, () => true)
  })

  it('ends only when the condition is true and the key was notified', async () => {
    const condition = new KeyedCondition()
    let value = 0
    const one = watched(condition, 'a', () => value >= 1)
    const two = watched(condition, 'a', () => value >= 2)
    value = 1
    condition.notify('b')
    await turn()
    expect([one.isOver, two.isOver]).to.deep.equal([false, false])
    condition.notify('a')
    await one.ended
    expect(two.isOver).to.equal(false)
    value = 2
    condition.notifyAll()
    await two.ended
  })

  it('ends at its timeout, or when releaseAll() is called', async () => {
    const condition = new KeyedCondition()
    await condition.wait('a', 1, () => false)
    const waits = ['a', 'b'].map((key) => watched(condition, key, () => false))
    condition.releaseAll()
    await Promise.all(waits.map(({ ended }) => ended))
  })
})
