import { expect } from 'chai'
import { parseIo } from './usage.js'

describe('the parser of the disk I/O in a cgroup file', () => {
  const v1 = '7:0 Read 4096\n7:0 Write 8192\n7:0 Total 12288\n17:0 Read 1\n8:16 Write 5\nTotal 12294\n'
  const v2 = '7:0 rbytes=4096 wbytes=8192 rios=1 wios=2 dbytes=0 dios=0\n254:0 rbytes=4096 wbytes=9000 rios=1\n'
  for (const [name, text, disk, read, written] of [
    ['a disk with reads and writes, with cgroup v1', v1, '7:0', 4096, 8192],
    ['a disk with writes only, with cgroup v1', v1, '8:16', 0, 5],
    ['an unused disk as 0, with cgroup v1', 'Total 0\n', '7:0', 0, 0],
    ['a disk with reads and writes, with cgroup v2', v2, '7:0', 4096, 8192],
    ['the second of two disks, with cgroup v2', v2, '254:0', 4096, 9000],
    ['an unused disk as 0, with cgroup v2', v2, '54:0', 0, 0],
    ['a disk as 0 if the file is empty', '', '7:0', 0, 0],
  ] as const)
    it(`reads the bytes of ${name}`, () =>
      expect(parseIo(text, disk)).to.deep.equal({ readBytes: read, writeBytes: written }))
})
