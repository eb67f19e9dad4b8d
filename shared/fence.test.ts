import { expect } from 'chai'
import { fromServiceError, toServiceError } from './grpc-errors.js'
import { formatFence, judgeEpoch, parseFence, StaleEpochError, staleEpoch } from './fence.js'

describe('a fence (name of a lease and an epoch)', () => {
  it('is the same after it was formatted and parsed', () => {
    const fence = { work: 'fleet-upgrade-worker', epoch: 12_345 }
    expect(parseFence(formatFence(fence))).to.deep.equal(fence)
  })

  const malformed = [
    '',
    'work',
    'work 0',
    'work -1',
    'work 1.5',
    'work 01',
    'Work 1',
    'work 1 2',
    `${'w'.repeat(33)} 1`,
    'work 9999999999999999',
  ]
  for (const text of malformed)
    it(`is not parsed from the malformed text ${JSON.stringify(text)}`, () =>
      expect(parseFence(text)).to.equal(undefined))

  for (const [highest, epoch, verdict] of [
    [0, 1, 'newer'],
    [5, 6, 'newer'],
    [5, 5, 'current'],
    [5, 4, 'stale'],
  ] as const)
    it(`with epoch ${epoch} is ${verdict} if the highest epoch so far is ${highest}`, () =>
      expect(judgeEpoch(highest, epoch)).to.equal(verdict))

  it('is refused, if it is stale, with an error that contains the highest epoch so far', () => {
    const error = fromServiceError(toServiceError(staleEpoch({ work: 'drain', epoch: 3 }, 7)), {
      step: 's',
      left: true,
    })
    expect(error).to.be.instanceOf(StaleEpochError)
    expect(error).to.include({ code: 'stale_epoch', kind: 'conflict', highest: 7 })
  })

  for (const digits of [12, 13, 15, 16])
    it(`can be parsed if its epoch follows a reported highest epoch of ${digits} digits`, () => {
      const refused = staleEpoch({ work: 'drain', epoch: 3 }, 10 ** digits - 1)
      const error = fromServiceError(toServiceError(refused), { step: 's', left: true })
      const fence = { work: 'drain', epoch: (error as StaleEpochError).highest + 1 }
      expect(parseFence(formatFence(fence))).to.deep.equal(fence)
    })
})
