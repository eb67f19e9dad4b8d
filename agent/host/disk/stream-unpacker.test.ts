import { expect } from 'chai'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { WaitBudget } from '../../../shared/async/wait-budget.js'
import { waitFor } from '../../../test/support/wait.js'
import { feed, type StreamUnpacker } from './stream-unpacker.js'

/** A program that takes everything, and ends when the test says so. */
class FakeProgram implements StreamUnpacker {
  readonly lengths: number[] = []
  isEnded = false
  finish: () => void = () => undefined
  fail: (error: Error) => void = () => undefined
  readonly ended = new Promise<void>((resolve, reject) => {
    this.finish = resolve
    this.fail = reject
  })

  async write(data: Buffer): Promise<void> {
    this.lengths.push(data.length)
  }

  end(): void {
    this.isEnded = true
    this.finish()
  }

  kill(): void {
    this.fail(new Error('killed'))
  }
}

describe('feeding an archive to a program', () => {
  const budget = new WaitBudget(600_000, () => new Error('too slow'))

  it('passes all parts in their order, and ends the input', async () => {
    const program = new FakeProgram()
    const rest = [Buffer.alloc(2), Buffer.alloc(3)][Symbol.iterator]()
    await feed(program, Buffer.alloc(1), { next: async () => rest.next() }, budget)
    expect(program.lengths).to.deep.equal([1, 2, 3])
    expect(program.isEnded).to.equal(true)
  })

  it('rejects while it waits for the next part if the program fails', async () => {
    const program = new FakeProgram()
    const fed = feed(program, Buffer.alloc(1), { next: () => new Promise(() => undefined) }, budget)
    program.fail(new Error('damaged'))
    expect(await fed.catch((error: Error) => error.message)).to.equal('damaged')
    expect(program.isEnded).to.equal(false)
  })

  it('rejects if the program takes no data for too long, or does not end', async () => {
    const program = new FakeProgram()
    program.write = () => new Promise(() => undefined)
    const short = (): WaitBudget => new WaitBudget(1, () => new Error('too slow'))
    const rest = { next: async () => ({ done: true as const, value: undefined }) }
    const stalled = feed(program, Buffer.alloc(1), rest, short())
    expect(await stalled.catch((error: Error) => error.message)).to.equal('too slow')
    const endless = new FakeProgram()
    endless.end = () => undefined
    const fed = feed(endless, Buffer.alloc(1), rest, short())
    expect(await fed.catch((error: Error) => error.message)).to.equal('too slow')
  })

  it('keeps no part in memory after the program has taken it', async () => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    const program = new FakeProgram()
    const parts: WeakRef<Buffer>[] = []
    let finish = (): void => undefined
    const finished = new Promise<IteratorResult<Buffer>>((resolve) => {
      finish = () => resolve({ done: true, value: undefined })
    })
    const next = async (): Promise<IteratorResult<Buffer>> => {
      if (parts.length === 100) return finished
      const value = Buffer.alloc(64 * 1024)
      parts.push(new WeakRef(value))
      return { done: false, value }
    }
    const fed = feed(program, Buffer.alloc(1), { next }, budget)
    // The last parts can still be referenced by the pending calls.
    await waitFor(
      () => {
        collect()
        return program.lengths.length === 101 && parts.filter((part) => part.deref()).length < 10
      },
      { what: 'the parts to be collected' },
    )
    finish()
    await fed
  })
})
