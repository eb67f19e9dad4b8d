import { expect } from 'chai'
import { KeyedMutex } from './keyed-mutex.js'
import { Mutex } from './mutex.js'

const refuse = (): Promise<never> => Promise.reject(new Error('refused'))
const messageOf = (error: Error): string => error.message

describe('a mutex', () => {
  it('runs calls one after another and in order, even if a call fails', async () => {
    const mutex = new Mutex()
    const log: string[] = []
    const runs = ['a', 'b', 'c'].map((name) =>
      mutex.run(async () => {
        log.push(`${name} begins`)
        await new Promise(setImmediate)
        log.push(`${name} ends`)
        if (name === 'a') await refuse()
        return name
      }),
    )
    expect(mutex.isLocked).to.equal(true)
    expect(await runs[0]!.catch(messageOf)).to.equal('refused')
    expect(await Promise.all(runs.slice(1))).to.deep.equal(['b', 'c'])
    expect(log).to.deep.equal(['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends'])
  })

  it('is unlocked when all calls have ended, even if a function throws synchronously', async () => {
    const mutex = new Mutex()
    const failed = mutex
      .run(() => {
        throw new Error('refused')
      })
      .catch(messageOf)
    const last = mutex.run(() => 7)
    await mutex.settled()
    expect(mutex.isLocked).to.equal(false)
    expect([await failed, await last]).to.deep.equal(['refused', 7])
  })
})

describe('a keyed mutex', () => {
  it('runs the work on one key in sequence, but the work on different keys in parallel', async () => {
    const mutex = new KeyedMutex()
    const log: string[] = []
    let release = (): void => undefined
    const held = new Promise<void>((done) => (release = done))
    const first = mutex.run('a', async () => {
      log.push('a1')
      await held
      log.push('a1 ends')
      await refuse()
    })
    const second = mutex.run('a', () => log.push('a2'))
    await mutex.run('b', () => log.push('b'))
    expect(log).to.deep.equal(['a1', 'b'])
    release()
    expect(await first.catch(messageOf)).to.equal('refused')
    await second
    expect(log).to.deep.equal(['a1', 'b', 'a1 ends', 'a2'])
  })

  it('counts as locked for a key while work on this key runs or waits', async () => {
    const mutex = new KeyedMutex()
    const runs = [mutex.run('a', () => new Promise(setImmediate)), mutex.run('a', () => 7)]
    expect([mutex.isLocked('a'), mutex.isLocked('b')]).to.deep.equal([true, false])
    await runs[0]
    expect(mutex.isLocked('a')).to.equal(true)
    expect(await runs[1]).to.equal(7)
    await new Promise(setImmediate)
    expect(mutex.isLocked('a')).to.equal(false)
  })
})
