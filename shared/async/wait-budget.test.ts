import { expect } from 'chai'
import { setTimeout as delay } from 'node:timers/promises'
import { WaitBudget } from './wait-budget.js'

const never = new Promise<void>(() => undefined)
const errorOf = (promise: Promise<unknown>): Promise<unknown> => promise.then(undefined, (error: unknown) => error)

describe('a limit of the total time of waits', () => {
  const spent = new Error('too slow')
  const open = (leftMs: number): WaitBudget => new WaitBudget(leftMs, () => spent)

  it('passes on results and errors', async () => {
    const budget = open(600_000)
    const failure = new Error('failed')
    expect(await budget.wait(Promise.resolve(1))).to.equal(1)
    expect(await errorOf(budget.wait(Promise.reject(failure)))).to.equal(failure)
  })

  it('ends a wait that takes too long', async () => {
    expect(await errorOf(open(1).wait(never))).to.equal(spent)
  })

  it('adds up the times of all waits, and does not count the time between them', async () => {
    const budget = open(600_000)
    await budget.wait(delay(20))
    const leftMs = (budget as unknown as { leftMs: number }).leftMs
    expect(leftMs).to.be.below(600_000 - 10)
    await delay(20)
    expect((budget as unknown as { leftMs: number }).leftMs).to.equal(leftMs)
  })
})
