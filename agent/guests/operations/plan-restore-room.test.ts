import { expect } from 'chai'
import {
  planCopiedBytes,
  planExtraBytes,
  planFetchedBytes,
  planOriginalBytes,
  planUsedBytes,
} from './plan-restore-room.js'

const mib = 1024 ** 2
const limitBytes = 1024 * mib

describe('the disk usage that a new backup records', () => {
  for (const [name, countedMib, limitMib, extraMib, usedMib] of [
    ['excludes the bytes by which an earlier restore raised the limit of the guest', 800, 1024, 300, 500],
    ['is at most the size of the disk, even if snapshots retain more', 1400, 1024, 0, 1024],
    ['is the size of the whole volume if the volume has no limit', 1400, 0, 0, 1400],
  ] as const)
    it(name, () => {
      const [counted, limit, extra, used] = [countedMib, limitMib, extraMib, usedMib].map((value) => value * mib)
      expect(planUsedBytes(counted!, { limitBytes: limit!, extraBytes: extra! })).to.equal(used)
    })
})

describe('the disk usage of the original guest according to its backup', () => {
  for (const [name, size, originalMib] of [
    [
      'is the number of bytes that counted towards the disk limit of the original guest',
      { sizeBytes: 1200, usedBytes: 800 },
      800,
    ],
    ['is the length of all files if the recorded bytes include snapshots', { sizeBytes: 800, usedBytes: 1400 }, 800],
    ['excludes the holes of large sparse files', { sizeBytes: 6600, usedBytes: 1400, savedBytes: 6000 }, 600],
    ['is 0 if the backup does not record the bytes that counted towards the disk limit', { sizeBytes: 1200 }, 0],
  ] as const)
    it(name, () => {
      const bytes = Object.fromEntries(Object.entries(size).map(([key, value]) => [key, value * mib]))
      expect(planOriginalBytes({ sizeBytes: 0, fileCount: 1, ...bytes }) / mib).to.equal(originalMib)
    })
})

describe('the extra space that a restored backup needs beyond the guest’s limit', () => {
  for (const [name, usedBytes, originalBytes, extraBytes] of [
    ['is 0 if the restored volume needs as much as the original', 800 * mib, 800 * mib, 0],
    ['is 0 if the restored volume needs less than the original', 700 * mib, 800 * mib, 0],
    [
      'is the size of the image’s data if the restored volume does not share this data with the image',
      1062 * mib,
      800 * mib,
      262 * mib,
    ],
    ['is needed even if the original disk was almost empty', 262 * mib, 2 * mib, 260 * mib],
    ['is refused if it would exceed the size of the disk', 3000 * mib, 800 * mib, undefined],
    ['is 0 for a backup of an older agent if the restored volume fits', 1024 * mib, undefined, 0],
    ['is refused for a backup of an older agent if the restored volume does not fit', 1025 * mib, undefined, undefined],
  ] as const)
    it(name, () => expect(planExtraBytes({ limitBytes, usedBytes, originalBytes })).to.equal(extraBytes))
})

describe('the space reserved to fetch a backup from its target', () => {
  for (const [name, size, wantedMib] of [
    ['a sparse disk whose snapshots are many times larger than its data', { savedBytes: 924, movedBytes: 0 }, 100],
    ['a file with repeated blocks that share space only after the restore', { savedBytes: 924, movedBytes: 500 }, 600],
    ['a backup of an older agent without a record of how much data a restore moves', { savedBytes: 924 }, 1124],
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

describe('the additional space of a guest that starts from its standby', () => {
  for (const [name, usedMib, expectedMib] of [
    ['is 0 if its data fits', 1000, 0],
    ['is what its image adds', 1200, 176],
    ['is at most the size of its disk', 5000, 1024],
  ] as const)
    it(name, () => {
      expect(planCopiedBytes({ limitBytes, usedBytes: usedMib * mib })).to.equal(expectedMib * mib)
    })
})
