import { expect } from 'chai'
import { waitUntilNone } from './wait.js'

describe('a wait until no items remain', () => {
  const options = { timeoutMs: 60_000, stillMs: 60, what: 'it' }
  const said = (error: Error): string => error.message

  it('continues as long as the number of remaining items decreases', async () => {
    const begun = performance.now()
    const end = begun + 200
    await waitUntilNone(() => Math.max(0, end - performance.now()), options)
    expect(performance.now() - begun).to.be.at.least(200)
  })

  it('fails if the number of remaining items stops decreasing, or if items remain at the timeout', async () => {
    expect(await waitUntilNone(() => 3, options).catch(said)).to.equal('timed out waiting for it')
    let left = 1e9
    expect(await waitUntilNone(() => left--, { ...options, timeoutMs: 20 }).catch(said)).to.contain('timed out')
  })
})
