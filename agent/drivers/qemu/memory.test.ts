import { expect } from 'chai'
import { parseGuestMemory } from './memory.js'

const stats = (total: unknown, available: unknown) => ({
  'stat-total-memory': total,
  'stat-available-memory': available,
})

describe('the bytes of memory in use in a guest that started with 256 bytes', () => {
  for (const [what, told, actualBytes, used] of [
    ['a guest that has all its memory', stats(240, 200), 256, 40],
    ['a guest that returned memory to the host and still counts it in its total', stats(240, 136), 192, 40],
    ['a guest that returned memory to the host and no longer counts it in its total', stats(176, 136), 192, 40],
    ['statistics that would give a negative result', stats(240, 200), 128, 0],
    ['a guest whose balloon size QEMU does not report', stats(240, 200), undefined, 40],
    ['a total that is larger than the memory at the start of the guest', stats(300, 200), 256, undefined],
    ['statistics with more available memory than the total', stats(240, 250), 256, undefined],
    ['statistics with negative available memory', stats(240, -1), 256, undefined],
    ['statistics with text instead of a number', stats('240', 200), 256, undefined],
    ['a guest without statistics', undefined, 256, undefined],
  ] as const)
    it(`are ${used} for ${what}`, () =>
      expect(parseGuestMemory(told, { actualBytes, bootedBytes: 256 })).to.equal(used))
})
