import { expect } from 'chai'
import { parseGuestMemory } from './memory.js'

const stats = (total: unknown, available: unknown) => ({
  'stat-total-memory': total,
  'stat-available-memory': available,
})

/** Of a guest that was started with 256 of something. */
describe('the memory use of a guest, by its balloon', () => {
  for (const [what, told, actualBytes, used] of [
    ['of one that has all of it', stats(240, 200), 256, 40],
    ['of one that gave some back, which its total has still', stats(240, 136), 192, 40],
    ['of one whose total has it no more', stats(176, 136), 192, 40],
    ['never less than nothing', stats(240, 200), 128, 0],
    ['where QEMU tells of no balloon', stats(240, 200), undefined, 40],
    ['not of more than there is', stats(300, 200), 256, undefined],
    ['not where more is free', stats(240, 250), 256, undefined],
    ['not below nothing', stats(240, -1), 256, undefined],
    ['not as a word', stats('240', 200), 256, undefined],
    ['not where nothing is told', undefined, 256, undefined],
  ] as const)
    it(what, () => expect(parseGuestMemory(told, { actualBytes, bootedBytes: 256 })).to.equal(used))
})
