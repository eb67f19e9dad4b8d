import { expect } from 'chai'
import { planExtraBytes, planFetchedBytes, planOriginalBytes, planUsedBytes } from './plan-restore-room.js'

const mib = 1024 ** 2
const limitBytes = 1024 * mib

describe('what a backup records as counted for the disk', () => {
  for (const [name, countedMib, limitMib, extraMib, usedMib] of [
    ['leaves out space that an earlier restore added', 800, 1024, 300, 500],
    ['is at most the disk, whatever snapshots retain', 1400, 1024, 0, 1024],
    ['includes everything on a disk that limits itself', 1400, 0, 0, 1400],
  ] as const)
    it(name, () => {
      const [counted, limit, extra, used] = [countedMib, limitMib, extraMib, usedMib].map((value) => value * mib)
      expect(planUsedBytes(counted!, { limitBytes: limit!, extraBytes: extra! })).to.equal(used)
    })
})

describe('what an original took at most', () => {
  for (const [name, size, originalMib] of [
    ['is what counted for its disk', { sizeBytes: 1200, usedBytes: 800 }, 800],
    ['is the length of all files, where snapshots counted as well', { sizeBytes: 800, usedBytes: 1400 }, 800],
    ['does not include holes of large files', { sizeBytes: 6600, usedBytes: 1400, savedBytes: 6000 }, 600],
    ['is not known without the figure', { sizeBytes: 1200 }, 0],
  ] as const)
    it(name, () => {
      const bytes = Object.fromEntries(Object.entries(size).map(([key, value]) => [key, value * mib]))
      expect(planOriginalBytes({ sizeBytes: 0, fileCount: 1, ...bytes }) / mib).to.equal(originalMib)
    })
})

describe('space for a restored backup', () => {
  for (const [name, usedBytes, originalBytes, extraBytes] of [
    ['stays the same if the copy needs as much as the original', 800 * mib, 800 * mib, 0],
    ['stays the same if the copy needs less', 700 * mib, 800 * mib, 0],
    ['keeps the free space if the data of the image is not shared', 1062 * mib, 800 * mib, 262 * mib],
    ['keeps the free space of a disk that was almost empty', 262 * mib, 2 * mib, 260 * mib],
    ['gives no guest more than twice the disk', 3000 * mib, 800 * mib, undefined],
    ['accepts an older backup that fits', 1024 * mib, undefined, 0],
    ['refuses an older backup that does not fit', 1025 * mib, undefined, undefined],
  ] as const)
    it(name, () => expect(planExtraBytes({ limitBytes, usedBytes, originalBytes })).to.equal(extraBytes))

  for (const [name, size, wantedMib] of [
    ['a disk with holes, whose snapshots retain many times its data', { savedBytes: 924, movedBytes: 0 }, 100],
    ['data that a file shares with itself, until deduplication', { savedBytes: 924, movedBytes: 500 }, 600],
    ['a backup of an older version, by the space that counted for the disk', { savedBytes: 924 }, 1124],
  ] as const)
    it(`is enough for ${name}`, () => {
      const bytes = Object.fromEntries(Object.entries(size).map(([key, value]) => [key, value * mib]))
      const needed = planFetchedBytes({
        sizeBytes: limitBytes,
        usedBytes: 5 * limitBytes,
        fileCount: 1,
        ...bytes,
      })
      expect(needed / mib).to.be.within(wantedMib * 1.1 + 64, wantedMib * 1.1 + 65)
    })

  it('is enough for the metadata of many small files', () => {
    const small = planFetchedBytes({ sizeBytes: mib, fileCount: 10_000, usedBytes: 50 * mib })
    expect(small).to.be.within(110 * mib, 150 * mib)
  })
})
