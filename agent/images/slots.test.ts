import { expect } from 'chai'
import { Slots } from './slots.js'

describe('slots', () => {
  const never = new AbortController().signal

  it('let few in at once, in the order in which they came', async () => {
    const slots = new Slots(2)
    const seen: string[] = []
    const doors: (() => void)[] = []
    const come = (name: string, signal = never): Promise<void> =>
      slots.run(async () => {
        seen.push(name)
        await new Promise<void>((open) => doors.push(open))
      }, signal)
    const stop = new AbortController()
    const all = [come('a'), come('b')]
    const gone = come('gone', stop.signal).catch((error: Error) => error.message)
    all.push(come('c'), come('d'))
    await Promise.resolve()
    expect(seen).to.deep.equal(['a', 'b'])
    stop.abort(new Error('given up'))
    expect(await gone).to.equal('given up')
    doors.shift()?.()
    await all[0]
    await Promise.resolve()
    expect(seen).to.deep.equal(['a', 'b', 'c'])
    while (seen.length < 4 || doors.length > 0) {
      doors.shift()?.()
      await new Promise(setImmediate)
    }
    await Promise.all(all)
    expect(seen).to.deep.equal(['a', 'b', 'c', 'd'])
  })

  it('are free again where the work fails, and take nobody who is gone', async () => {
    const slots = new Slots(1)
    const fail = slots
      .run(() => Promise.reject(new Error('no')), never)
      .catch((error: Error) => error.message)
    expect(await fail).to.equal('no')
    expect(await slots.run(async () => 'in', never)).to.equal('in')
    const gone = AbortSignal.abort(new Error('gone'))
    expect(await slots.run(async () => 'in', gone).catch((error: Error) => error.message)).to.equal('gone')
    expect(await slots.run(async () => 'in', never)).to.equal('in')
  })
})
