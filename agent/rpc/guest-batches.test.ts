import { expect } from 'chai'
import { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { encodeGuestBatches } from './guest-batches.js'

const kib = 1024

/** Returns guests whose `statusReason` has these lengths, in bytes. */
function guestsOf(lengths: readonly number[]): Guest[] {
  return lengths.map((length, at) => Guest.fromPartial({ id: at + 1, statusReason: 'x'.repeat(length) }))
}

function idsOf(lengths: readonly number[]): number[][] {
  const batches = [...encodeGuestBatches(guestsOf(lengths))]
  return batches.map(({ guests }) => guests.map((bytes) => Guest.decode(bytes).id))
}

describe('the batches in which guests are sent', () => {
  for (const [name, lengths, ids] of [
    ['are not sent if there are no guests', [], []],
    ['contain small guests together', [10, 10, 10], [[1, 2, 3]]],
    ['contain only one guest if it is large', [100 * kib, 10, 10], [[1], [2, 3]]],
    ['end as soon as their size reaches 64 KiB', [40 * kib, 40 * kib, 10], [[1, 2], [3]]],
  ] as const)
    it(name, () => expect(idsOf(lengths)).to.deep.equal(ids))
})
