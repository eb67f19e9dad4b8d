import { expect } from 'chai'
import { Gate } from './gate.js'

describe('a gate', () => {
  /** Work that ends when told to. */
  const held = () => {
    let end = () => undefined as void
    const over = new Promise<void>((resolve) => (end = resolve))
    return { end, over }
  }
  const settle = () => new Promise((resolve) => setImmediate(resolve))

  it('lets so many run, and those of first go before others', async () => {
    const gate = new Gate(2, 10)
    const order: string[] = []
    const works = new Map<string, ReturnType<typeof held>>()
    const enter = (name: string, first = false) => {
      const work = held()
      works.set(name, work)
      void gate.enter(() => {
        order.push(name)
        return work.over
      }, first)
    }
    for (const name of ['a', 'b', 'c', 'd']) enter(name)
    enter('first', true)
    await settle()
    expect(order).to.deep.equal(['a', 'b'])
    works.get('a')?.end()
    await settle()
    expect(order).to.deep.equal(['a', 'b', 'first'])
    for (const work of works.values()) work.end()
    await settle()
    expect(order).to.deep.equal(['a', 'b', 'first', 'c', 'd'])
  })

  it('refuses those that would wait behind too many, and goes on after one that failed', async () => {
    const gate = new Gate(1, 1)
    const work = held()
    const running = gate.enter(() => work.over.then(() => Promise.reject(new Error('x'))), false)
    const waiting = gate.enter(() => Promise.resolve('done'), false)
    expect(gate.enter(() => Promise.resolve(''), false)).to.equal(undefined)
    expect(
      gate.enter(() => Promise.resolve(''), true),
      'a line of its own',
    ).to.not.equal(undefined)
    work.end()
    expect(await running?.catch((error: Error) => error.message)).to.equal('x')
    expect(await waiting).to.equal('done')
    expect(await gate.enter(() => Promise.resolve('later'), false)).to.equal('later')
  })
})
