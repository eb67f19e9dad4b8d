import { expect } from 'chai'
import { parseMemory } from '../process/memory.js'
import { parseSwaps } from './swap.js'

describe('the parser of /proc/swaps', () => {
  const head = 'Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n'
  for (const [name, text, areas] of [
    ['returns nothing if there are no swap areas', head, []],
    ['returns nothing for an empty text', '', []],
    [
      'reads a partition and a file, with sizes in KiB',
      `${head}/dev/sda2                               partition\t1048572\t\t12\t\t-2\n/swapfile                               file\t\t65536\t\t0\t\t-3\n`,
      [
        { path: '/dev/sda2', sizeBytes: 1048572 * 1024, usedBytes: 12 * 1024 },
        { path: '/swapfile', sizeBytes: 65536 * 1024, usedBytes: 0 },
      ],
    ],
    [
      'decodes a blank in a name',
      `${head}/a\\040b\\040(deleted) file 4 0 -2\n`,
      [{ path: '/a b (deleted)', sizeBytes: 4096, usedBytes: 0 }],
    ],
  ] as const)
    it(name, () => expect(parseSwaps(text)).to.deep.equal(areas))
})

describe('the parser of /proc/meminfo', () => {
  it('reads the total and the available memory, in bytes', () => {
    const text = 'MemTotal:        4 kB\nMemFree:  1 kB\nMemAvailable:    3 kB\n'
    expect(parseMemory(text)).to.deep.equal({ totalBytes: 4096, availableBytes: 3072 })
  })

  it('fails if a figure is missing', () => {
    expect(() => parseMemory('MemTotal: 4 kB\n')).to.throw('MemAvailable')
  })
})
