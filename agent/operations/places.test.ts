import { expect } from 'chai'
import { Places } from './places.js'

describe('places', () => {
  const never = new AbortController().signal
  const held = (
    places: Places,
    log: string[],
    name: string,
    signal = never,
  ): { end: () => void; done: Promise<void> } => {
    let end = (): void => undefined
    const work = new Promise<void>((resolve) => (end = resolve))
    const done = places.run(signal, () => (log.push(name), work))
    return { end, done }
  }

  it('let so many work at once, the others in their order', async () => {
    const log: string[] = []
    const places = new Places(2)
    const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((name) => held(places, log, name))
    await Promise.resolve()
    expect(log).to.deep.equal(['a', 'b'])
    b!.end()
    await b!.done
    a!.end()
    await a!.done
    c!.end()
    d!.end()
    await Promise.all([c!.done, d!.done])
    expect(log).to.deep.equal(['a', 'b', 'c', 'd'])
  })

  it('are given up by who does not wait any longer, and free after a failure', async () => {
    const log: string[] = []
    const places = new Places(1)
    const first = held(places, log, 'first')
    const given = new AbortController()
    const second = held(places, log, 'second', given.signal)
    const third = held(places, log, 'third')
    given.abort(new Error('enough'))
    expect(await second.done.catch((error: Error) => error.message)).to.equal('enough')
    first.end()
    await first.done
    third.end()
    await third.done
    expect(log).to.deep.equal(['first', 'third'])
    await places.run(never, () => Promise.reject(new Error('failed'))).catch(() => undefined)
    await places.run(never, async () => void log.push('after'))
    expect(log.at(-1)).to.equal('after')
  })
})
