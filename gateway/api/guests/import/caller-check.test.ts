import { expect } from 'chai'
import { BerthError } from '../../../../shared/errors.js'
import { CallerCheck } from './caller-check.js'

const outage = new BerthError('unavailable', 'store_unavailable', 'the store is not available')
const refusal = new BerthError('unauthenticated', 'unauthorized', 'the key was deleted')

describe('the repeated check of a caller', () => {
  let results: (BerthError | undefined)[]
  let check: CallerCheck
  beforeEach(() => {
    results = []
    check = new CallerCheck(async () => {
      const error = results.shift()
      if (error) throw error
    })
  })

  async function runAll(...planned: typeof results): Promise<void> {
    results.push(...planned)
    while (results.length > 0) await check.run()
  }

  it('ends the request at once if the caller is refused', async () => {
    await runAll(undefined, refusal)
    expect(check.signal.reason).to.equal(refusal)
  })

  it('ignores short outages of the store', async () => {
    const five = Array.from({ length: 5 }, () => outage)
    await runAll(...five, undefined, ...five)
    expect(check.signal.aborted).to.equal(false)
  })

  it('ends the request after a long outage of the store', async () => {
    await runAll(...Array.from({ length: 6 }, () => outage))
    expect(check.signal.reason).to.equal(outage)
  })

  it('runs only once at a time', async () => {
    let [count, end] = [0, (): void => undefined]
    const slow = new CallerCheck(() => {
      count++
      return new Promise<void>((resolve) => (end = resolve))
    })
    const first = slow.run()
    await slow.run()
    end()
    await first
    expect(count).to.equal(1)
  })
})
