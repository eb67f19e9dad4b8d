import { expect } from 'chai'
import { waitFor } from '../../test/support/wait.js'
import { planProgress, ProgressReporter } from './progress.js'

describe('progress', () => {
  for (const [name, weights, index, fraction, percent] of [
    ['begins at 0', [1, 1], 0, 0, 0],
    ['counts finished steps', [1, 3], 1, 0, 25],
    ['counts within a step', [1, 3], 1, 0.5, 62],
    ['reserves 100 for the end', [1, 1], 1, 1, 99],
    ['clips above', [1, 1], 0, 7, 50],
    ['clips below', [1, 1], 1, -1, 50],
    ['treats NaN as 0', [1, 1], 1, NaN, 50],
    ['handles steps without weight', [0, 0], 1, 1, 0],
    ['handles an empty list', [], 0, 0, 0],
  ] as const)
    it(name, () => expect(planProgress(weights, index, fraction)).to.equal(percent))

  it('writes few of many reports, and the last', async () => {
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

  it('writes no repetition, and nothing once closed', async () => {
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
