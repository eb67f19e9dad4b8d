import { expect } from 'chai'
import { RenewalWaits } from './renewal-waits.js'

describe('the delays after failed renewals of certificates', () => {
  it('double after each failure of the same host, up to a minute', () => {
    let nowMs = 0
    const waits = new RenewalWaits(() => nowMs)
    const waited: number[] = []
    for (let failure = 0; failure < 6; failure++) {
      waits.failed('h1')
      const atMs = nowMs
      while (waits.isWaiting('h1', 5000)) nowMs += 1000
      waited.push((nowMs - atMs) / 1000)
    }
    expect(waited).to.deep.equal([5, 10, 20, 40, 60, 60])
  })

  it('start again with the shortest delay after a success of the host, and do not change for other hosts', () => {
    let nowMs = 0
    const waits = new RenewalWaits(() => nowMs)
    for (let failure = 0; failure < 6; failure++) waits.failed('h1')
    waits.succeeded('h1')
    expect([waits.isWaiting('h1', 5000), waits.isWaiting('h2', 5000)]).to.deep.equal([true, false])
    nowMs = 5000
    expect(waits.isWaiting('h1', 5000)).to.equal(false)
  })
})
