import { expect } from 'chai'
import { pino } from 'pino'
import { PeriodicTasks } from './periodic-tasks.js'

const log = pino({ level: 'silent' })
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

describe('periodic tasks', () => {
  it('run on request and at an interval until they are closed, even if one of them fails', async () => {
    const rounds = { failing: 0, other: 0 }
    const tasks = new PeriodicTasks(
      {
        failing: async () => {
          rounds.failing++
          throw new Error('broken')
        },
        other: async () => void rounds.other++,
      },
      log,
    )
    await tasks.run()
    expect(rounds).to.deep.equal({ failing: 1, other: 1 })
    tasks.start(5)
    for (const end = performance.now() + 10_000; rounds.other < 3 && performance.now() < end;) await pause(2)
    await tasks.close()
    const ended = { ...rounds }
    expect(ended.other).to.be.at.least(3)
    expect(ended.failing).to.equal(ended.other)
    await pause(30)
    expect(rounds).to.deep.equal(ended)
  })

  it('are closed only when the current run has ended', async () => {
    let finish = (): void => undefined
    let isFinished = false
    const gate = new Promise<void>((resolve) => (finish = resolve))
    const slow = async (): Promise<void> => {
      await gate
      isFinished = true
    }
    const tasks = new PeriodicTasks({ slow }, log)
    void tasks.run()
    const closed = tasks.close()
    finish()
    await closed
    expect(isFinished).to.equal(true)
  })
})
