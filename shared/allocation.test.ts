import { expect } from 'chai'
import { countedDiskGb, findExceeded } from './allocation.js'

const size = { cpuCores: 4, ramTotalMb: 1000, diskTotalGb: 100 }
const ratios = { cpu: 1, ram: 2, disk: 1.5 }
const full = { vcpuMilli: 4000, ramMb: 2000, diskGb: 150 }

describe('the search for resources that are overcommitted beyond their ratio', () => {
  for (const [name, allocated, host, limits, found] of [
    ['finds nothing if all allocations are exactly at the ratio', full, size, ratios, undefined],
    ['finds that too many processors are allocated', { ...full, vcpuMilli: 4001 }, size, ratios, 'cpu'],
    ['finds that too much RAM is allocated', { ...full, ramMb: 2001 }, size, ratios, 'ram'],
    ['finds that too much disk space is allocated', { ...full, diskGb: 151 }, size, ratios, 'disk'],
    ['ignores resources without a limit', { ...full, ramMb: 9999 }, size, { ...ratios, ram: 0 }, undefined],
    ['finds a limited resource on a host whose size is unknown', full, undefined, ratios, 'cpu'],
    [
      'finds nothing on a host of unknown size if no resource has a limit',
      full,
      undefined,
      { cpu: 0, ram: 0, disk: 0 },
      undefined,
    ],
  ] as const)
    it(name, () => expect(findExceeded(allocated, host, limits)).to.equal(found))
})

describe('the disk space that counts for a guest', () => {
  it('includes the space of the snapshots, rounded up', () => expect(countedDiskGb(10, 2.5 * 1024 ** 3)).to.equal(13))
})
