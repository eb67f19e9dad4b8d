import { expect } from 'chai'
import { planFreeUserIds } from './image-settings.js'

describe('user ids for unpacking', () => {
  for (const [name, base, slots, expected] of [
    ['are behind those of guests', 1_000_000, 30_000, 1_000_000 + 30_000 * 65_536],
    ['are before them if there is no space behind', 4_294_000_000 - 65_536, 65_000, 4_294_000_000 - 2 * 65_536],
    ['begin above the host’s own', 65_536, 65_000, 65_536 * 65_001],
  ] as const)
    it(name, () => expect(planFreeUserIds({ idmap_base: base, idmap_slots: slots } as never)).to.equal(expected))
})
