import { expect } from 'chai'
import { waitFor } from '../../test/support/wait.js'
import { planProgress, ProgressReporter } from './progress.js'

describe('the progress of an operation', () => {
  for (const [name, weights, index, fraction, percent] of [
    ['begins at 0', [1, 1], 0, 0, 0],
    ['counts finished steps', [1, 3], 1, 0, 25],
    ['counts the finished part of a step', [1, 3], 1, 0.5, 62],
    ['stays below 100 until the operation has ended', [1, 1], 1, 1, 99],
    ['limits the finished part of a step to 1', [1, 1], 0, 7, 50],
    ['treats a negative part of a step as 0', [1, 1], 1, -1, 50],
    ['treats NaN as 0', [1, 1], 1, NaN, 50],
    ['is 0 if no step has a weight', [0, 0], 1, 1, 0],
    ['is 0 if there are no steps', [], 0, 0, 0],
  ] as const)
    it(name, () => expect(planProgress(weights, index, fraction)).to.equal(percent))

  it('is written at most once per interval, but the last report is always written', async () => {
    const written: string[] = []
    const reporter = new ProgressReporter((r) => written.push(`${r.progress} ${r.stage}`), at(0, 'a'), 20)
    const until = performance.now() + 100
    while (performance.now() < until) {
      for (let i = 0; i < 50; i++) reporter.report(i, `s${i}`)
      await new Promise(setImmediate)
    }
    reporter.report(98, 'end')
    await waitFor(() => written.at(-1) === '98 end')
    expect(written.length).to.be.within(2, 8)
    reporter.close()
  })

  it('is written only if it has changed, and never after its reporter was closed', async () => {
    const written: string[] = []
    const reporter = new ProgressReporter((r) => written.push(`${r.progress} ${r.stage}`), at(5, 'a'), 100)
    reporter.report(5)
    reporter.report(6)
    await waitFor(() => written.length > 0, { intervalMs: 1 })
    reporter.report(7, 'b')
    reporter.close()
    reporter.report(8, 'c')
    await new Promise((done) => setTimeout(done, 150))
    expect(written).to.deep.equal(['6 a'])
  })
})

function at(progress: number, stage: string): { progress: number; stage: string } {
  return { progress, stage }
}
