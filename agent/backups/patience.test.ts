import { expect } from 'chai'
import { Patience } from './patience.js'

const trouble = 'Save(<data/a6>) returned error, retrying after 1s: connection reset by peer'

describe('retries after failures of a backup target', () => {
  let nowMs = 0
  let patience: Patience
  const isOverAt = (ms: number, line = trouble): boolean => {
    nowMs = ms
    return patience.isOver(line)
  }
  beforeEach(() => {
    patience = new Patience(60_000, () => nowMs)
  })

  it('end after a minute of failures', () => {
    expect([0, 1000, 30_000, 59_999, 60_000].map((ms) => isOverAt(ms))).to.deep.equal([
      false,
      false,
      false,
      false,
      true,
    ])
  })
  it('continue for up to a minute after each success', () => {
    isOverAt(0)
    isOverAt(50_000)
    patience.reset()
    expect(isOverAt(70_000)).to.equal(false)
  })
  it('continue for a whole minute again if the last failure is more than a minute old', () => {
    isOverAt(0)
    expect(isOverAt(60_001)).to.equal(false)
  })
  it('end immediately after a failure that a retry cannot fix', () =>
    expect(isOverAt(0, 'write: no space left on device')).to.equal(true))
  it('continue if the line that restic prints a minute after the first failure reports no error', () => {
    isOverAt(0)
    expect(isOverAt(60_000, 'scan finished')).to.equal(false)
  })
})
