import { expect } from 'chai'
import { Patience } from './patience.js'

const trouble = 'Save(<data/a6>) returned error, retrying after 1s: connection reset by peer'

describe('patience with a target', () => {
  let nowMs = 0
  let patience: Patience
  const isOverAt = (ms: number, line = trouble): boolean => {
    nowMs = ms
    return patience.isOver(line)
  }
  beforeEach(() => {
    patience = new Patience(60_000, () => nowMs)
  })

  it('ends once it has failed for long', () => {
    expect([0, 1000, 30_000, 59_999, 60_000].map((ms) => isOverAt(ms))).to.deep.equal([
      false,
      false,
      false,
      false,
      true,
    ])
  })
  it('begins anew when something worked', () => {
    isOverAt(0)
    isOverAt(50_000)
    patience.reset()
    expect(isOverAt(70_000)).to.equal(false)
  })
  it('begins anew after a while without trouble', () => {
    isOverAt(0)
    expect(isOverAt(60_001)).to.equal(false)
  })
  it('ends at once where trying again is of no use', () =>
    expect(isOverAt(0, 'write: no space left on device')).to.equal(true))
  it('does not mind what is no trouble', () => {
    isOverAt(0)
    expect(isOverAt(60_000, 'scan finished')).to.equal(false)
  })
})
