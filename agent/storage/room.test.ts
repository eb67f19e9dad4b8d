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

describe('space in the pool', () => {
  for (const [name, total, free, disk, expected] of [
    ['a disk of the whole pool', 50, 40, 50, /^room$/],
    ['a disk of more than the pool', 50, 50, 51, /^resource_exhausted disk_gb: .* has only 50\.0 GiB/],
    ['a pool with just the reserve', 50, 1, 10, /^room$/],
    ['a pool with less than the reserve', 50, 0.99, 1, /^resource_exhausted disk_gb: .* full: 1\.0 of 50\.0/],
    ['a large pool with less than 2 %', 1000, 19, 1, /full/],
    ['a small pool that is empty', 1, 0.95, 1, /^room$/],
  ] as const)
    it(`${name}: ${expected.source}`, () => expect(outcome(total, free, disk)).to.match(expected))

  for (const [name, total, free, expected] of [
    ['half empty', 100, 50, []],
    ['at nine tenths', 100, 10, ['storage pool 90 % full, 10.0 of 100.0 GiB are free']],
    ['a small one with two reserves left', 8, 1.59, ['storage pool 80 % full, 1.6 of 8.0 GiB are free']],
    [
      'full',
      100,
      1.9,
      [
        'storage pool 98 % full, 1.9 of 100.0 GiB are free: new containers, snapshots and larger disks are refused until space is freed',
      ],
    ],
    ['none', 0, 0, []],
  ] as const)
    it(`warns of a pool ${name}`, () =>
      expect(planRoomWarnings({ totalBytes: total * gib, usedBytes: (total - free) * gib })).to.deep.equal(expected))

  it('rejects requests without a size if the pool is full', () => {
    expect(() => refuseFull({ totalBytes: 50 * gib, usedBytes: 49 * gib })).to.not.throw()
    expect(() => refuseFull({ totalBytes: 50 * gib, usedBytes: 49.1 * gib })).to.throw(/full: 0\.9 of 50\.0 GiB/)
  })

  it('reserves 1 GiB or 2 %, and a tenth of a small pool', () => {
    expect([4, 50, 1000].map((total) => planReserveBytes(total * gib) / gib)).to.deep.equal([0.4, 1, 20])
  })
})
