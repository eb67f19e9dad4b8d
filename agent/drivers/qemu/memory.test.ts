import { expect } from 'chai'
import { parseGuestMemory } from './memory.js'

const stats = (total: unknown, available: unknown) => ({
  'stat-total-memory': total,
  'stat-available-memory': available,
})

/** The guest was started with 256 units of memory. */
describe('the memory use of a guest, read from its balloon', () => {
  for (const [what, told, actualBytes, used] of [
    ['a guest that has all its memory', stats(240, 200), 256, 40],
    ['a guest that gave memory back, still counted in its total', stats(240, 136), 192, 40],
    ['a guest that gave memory back, no longer counted in its total', stats(176, 136), 192, 40],
    ['0 instead of a negative result', stats(240, 200), 128, 0],
    ['a guest without a balloon size from QEMU', stats(240, 200), undefined, 40],
    ['unknown: total above the memory at start', stats(300, 200), 256, undefined],
    ['unknown: more available than the total', stats(240, 250), 256, undefined],
    ['unknown: negative available memory', stats(240, -1), 256, undefined],
    ['unknown: text instead of a number', stats('240', 200), 256, undefined],
    ['unknown: no statistics', undefined, 256, undefined],
  ] as const)
    it(what, () => expect(parseGuestMemory(told, { actualBytes, bootedBytes: 256 })).to.equal(used))
})
