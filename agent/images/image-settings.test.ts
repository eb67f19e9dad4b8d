import { expect } from 'chai'
import { planFreeUserIds } from './image-settings.js'

describe('the choice of 65,536 user IDs that no guest has', () => {
  for (const [name, base, slots, expected] of [
    ['returns the ids directly above the ids of all guests', 1_000_000, 30_000, 1_000_000 + 30_000 * 65_536],
    [
      'returns the ids directly below the ids of all guests if the range above them is too small',
      4_294_000_000 - 65_536,
      65_000,
      4_294_000_000 - 2 * 65_536,
    ],
    ['returns only ids above the ids of the host itself', 65_536, 65_000, 65_536 * 65_001],
  ] as const)
    it(name, () => expect(planFreeUserIds({ idmap_base: base, idmap_slots: slots } as never)).to.equal(expected))
})
