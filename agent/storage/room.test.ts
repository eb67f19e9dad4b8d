import { expect } from 'chai'
import { checkRoom, planReserveBytes, planRoomWarnings, refuseFull } from './room.js'

const gib = 1024 ** 3
const outcome = (totalGib: number, freeGib: number, diskGib: number): string => {
  try {
    checkRoom({ totalBytes: totalGib * gib, usedBytes: (totalGib - freeGib) * gib }, diskGib * gib)
    return 'room'
  } catch (error) {
    const { code, message, field } = error as { code: string; message: string; field?: string }
    return `${code} ${field ?? ''}: ${message}`
  }
}

describe('the free space of the pool', () => {
  for (const [name, total, free, disk, expected] of [
    ['a new disk as large as the pool', 50, 40, 50, /^room$/],
    ['a new disk that is larger than the pool', 50, 50, 51, /^resource_exhausted disk_gb: .* has only 50\.0 GiB/],
    ['a new disk if only the reserve of the pool is free', 50, 1, 10, /^room$/],
    [
      'a new disk if less than the reserve of the pool is free',
      50,
      0.99,
      1,
      /^resource_exhausted disk_gb: .* full: 1\.0 of 50\.0/,
    ],
    ['a new disk if less than 2 % of a large pool are free', 1000, 19, 1, /full/],
    ['a new disk in a small empty pool', 1, 0.95, 1, /^room$/],
  ] as const)
    it(`${expected.source === '^room$' ? 'is enough' : 'is not enough'} for ${name}`, () =>
      expect(outcome(total, free, disk)).to.match(expected))

  for (const [name, total, free, expected] of [
    ['is half full', 100, 50, []],
    ['is nine tenths full', 100, 10, ['storage pool 90 % full, 10.0 of 100.0 GiB are free']],
    [
      'is small and its free space is less than twice the reserve',
      8,
      1.59,
      ['storage pool 80 % full, 1.6 of 8.0 GiB are free'],
    ],
    [
      'is full',
      100,
      1.9,
      [
        'storage pool 98 % full, 1.9 of 100.0 GiB are free: new containers, snapshots and larger disks are refused until space is freed',
      ],
    ],
    ['is not available and its size is 0', 0, 0, []],
  ] as const)
    it(`leads to ${expected.length === 0 ? 'no' : 'a'} warning if the pool ${name}`, () =>
      expect(planRoomWarnings({ totalBytes: total * gib, usedBytes: (total - free) * gib })).to.deep.equal(expected))

  it('is not enough for data of unknown size if less than the reserve is free', () => {
    expect(() => refuseFull({ totalBytes: 50 * gib, usedBytes: 49 * gib })).to.not.throw()
    expect(() => refuseFull({ totalBytes: 50 * gib, usedBytes: 49.1 * gib })).to.throw(/full: 0\.9 of 50\.0 GiB/)
  })

  it('excludes a reserve of 2 %, but at least 1 GiB and at most 10 % of the pool', () => {
    expect([4, 50, 1000].map((total) => planReserveBytes(total * gib) / gib)).to.deep.equal([0.4, 1, 20])
  })
})
