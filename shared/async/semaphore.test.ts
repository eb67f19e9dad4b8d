import { expect } from 'chai'
import { Semaphore } from './semaphore.js'

const messageOf = (error: Error): string => error.message
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

describe('a semaphore', () => {
  const open = (limit: number) => {
    const semaphore = new Semaphore(limit)
    const begun: string[] = []
    const run = (name: string, signal?: AbortSignal): { end: () => void; done: Promise<void> } => {
      let end = (): void => undefined
      const work = new Promise<void>((resolve) => (end = resolve))
      const done = semaphore.run(() => (begun.push(name), work), signal)
      return { end, done }
    }
    return { semaphore, begun, run }
  }

  it('runs calls up to its limit at the same time, and starts further calls in their order', async () => {
    const { begun, run } = open(2)
    const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((name) => run(name))
    await turn()
    expect(begun).to.deep.equal(['a', 'b'])
    b!.end()
    await b!.done
    await turn()
    expect(begun).to.deep.equal(['a', 'b', 'c'])
    for (const one of [a, c, d]) one!.end()
    await Promise.all([a!.done, c!.done, d!.done])
    expect(begun).to.deep.equal(['a', 'b', 'c', 'd'])
  })

  it('rejects a call whose signal is aborted before or during the wait', async () => {
    const { begun, run } = open(1)
    const first = run('first')
    const given = new AbortController()
    const second = run('second', given.signal)
    const third = run('third')
    given.abort(new Error('enough'))
    expect(await second.done.catch(messageOf)).to.equal('enough')
    expect(await run('late', given.signal).done.catch(messageOf)).to.equal('enough')
    first.end()
    await first.done
    third.end()
    await third.done
    expect(begun).to.deep.equal(['first', 'third'])
  })

  it('does not stop a running call whose signal is aborted', async () => {
    const { run } = open(1)
    const given = new AbortController()
    const first = run('first', given.signal)
    given.abort(new Error('enough'))
    first.end()
    await first.done
  })

  it('frees the slot of a call that failed', async () => {
    const { semaphore } = open(1)
    const failed = semaphore.run(() => Promise.reject(new Error('refused')))
    const next = semaphore.run(async () => 'next')
    expect(await failed.catch(messageOf)).to.equal('refused')
    expect(await next).to.equal('next')
  })
})
