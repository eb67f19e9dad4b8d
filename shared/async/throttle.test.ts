import { expect } from 'chai'
import { Throttle } from './throttle.js'

/** This interval is far longer than the test, so a run during the test cannot have waited for the interval's end. */
const longMs = 60_000
const shortMs = 20
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

describe('a throttle', () => {
  const counted = (options: { intervalMs: number; leading?: boolean }) => {
    const count = { runs: 0, atMs: [] as number[] }
    const throttle = new Throttle(() => {
      count.runs++
      count.atMs.push(performance.now())
    }, options)
    return { count, throttle }
  }

  const until = async (isSo: () => boolean): Promise<void> => {
    for (const end = performance.now() + 10_000; !isSo(); await pause(2))
      if (performance.now() > end) throw new Error('nothing happened')
  }

  it('combines the requests of one interval into a single run when the interval ends', async () => {
    const { count, throttle } = counted({ intervalMs: shortMs })
    const beganMs = performance.now()
    for (let n = 0; n < 5; n++) throttle.request()
    expect(count.runs).to.equal(0)
    await until(() => count.runs > 0)
    expect(count.atMs[0]! - beganMs).to.be.at.least(shortMs - 2)
    await pause(2 * shortMs)
    expect(count.runs).to.equal(1)
  })

  it('with the option "leading", runs at the first request, and runs again when the interval ends', async () => {
    const { count, throttle } = counted({ intervalMs: shortMs, leading: true })
    const beganMs = performance.now()
    for (let n = 0; n < 5; n++) throttle.request()
    expect(count.runs).to.equal(1)
    await until(() => count.runs === 2)
    expect(count.atMs[1]! - beganMs).to.be.at.least(shortMs - 2)
  })

  it('runs nothing during an interval that was started by hold()', async () => {
    const { count, throttle } = counted({ intervalMs: longMs, leading: true })
    throttle.hold()
    throttle.request()
    expect(count.runs).to.equal(0)
    throttle.close()
  })

  it('begins a run that is requested during another run only when the other run has ended', async () => {
    let [runs, atOnce] = [0, 0]
    let end = (): void => undefined
    const throttle = new Throttle(
      async () => {
        expect(++atOnce).to.equal(1)
        runs++
        await new Promise<void>((resolve) => (end = resolve))
        atOnce--
      },
      { intervalMs: 1, leading: true },
    )
    throttle.request()
    throttle.request()
    await pause(shortMs)
    expect(runs).to.equal(1)
    end()
    await until(() => runs === 2)
    end()
  })

  it('returns from settled() when the current run ends, or immediately if nothing runs', async () => {
    let end = (): void => undefined
    let ended = false
    const work = (): Promise<void> => new Promise<void>((resolve) => (end = resolve)).then(() => void (ended = true))
    const throttle = new Throttle(work, { intervalMs: 1, leading: true })
    await throttle.settled()
    throttle.request()
    throttle.close()
    setTimeout(() => end(), shortMs)
    await throttle.settled()
    expect(ended).to.equal(true)
  })

  it('drops the pending request, and ignores later requests, when it is closed', async () => {
    const { count, throttle } = counted({ intervalMs: 1 })
    throttle.request()
    throttle.close()
    throttle.request()
    await pause(shortMs)
    expect(count.runs).to.equal(0)
  })
})
