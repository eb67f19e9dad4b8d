import { expect } from 'chai'
import { isWritten, limitsIo, planLimits, type GroupValue } from './plan-limits.js'

const value = (controller: GroupValue['controller'], file: string, text: string): GroupValue => ({
  controller,
  file,
  value: text,
})
const memory = value('memory', 'memory.max', '268435456')
const cpu = value('cpu', 'cpu.max', '50000 100000')
const cpus = value('cpuset', 'cpuset.cpus', '0-1,4')
const read = value('blkio', 'blkio.throttle.read_bps_device', '7:0 1000000')
const unread = { ...read, value: '7:0 0' }
const io = value('io', 'io.max', '7:0 rbps=1000000 wbps=max riops=max wiops=max')
const noIo = { ...io, value: '7:0 rbps=max wbps=max riops=max wiops=max' }

describe('limits on the disk’s requests per second', () => {
  const limits = {
    vcpuMilli: 1000,
    memoryBytes: 2 ** 28,
    swapBytes: 0,
    diskBytes: 2 ** 30,
    pidsMax: 100,
    ioReadBytesPerSec: 0,
    ioWriteBytesPerSec: 0,
    ioReadsPerSec: 300,
  }
  const facts = { swapAccounting: false, socketAccounting: false, cpusets: false, poolDevice: '7:0' }
  const lines = (cgroupVersion: 1 | 2): string[] =>
    planLimits(limits, { ...facts, cgroupVersion }).map(({ file, value: text }) => `${file} ${text}`)

  it('have their own files in cgroup v1', () => {
    expect(lines(1)).to.include('blkio.throttle.read_iops_device 7:0 300')
    expect(lines(1)).to.include('blkio.throttle.write_iops_device 7:0 0')
  })
  it('share a file with the byte rates in cgroup v2', () =>
    expect(lines(2)).to.include('io.max 7:0 rbps=max wbps=max riops=300 wiops=max'))
  it('count as I/O limits even if they are the only limits of the guest', () => expect(limitsIo(limits)).to.equal(true))
})

describe('the comparison of a cgroup file with the wanted limit', () => {
  for (const [name, wanted, text, expected] of [
    ['a file with the wanted number', memory, '268435456\n', true],
    ['a file with a number other than the wanted one', memory, '268435457\n', false],
    ['a file with a number that has one more digit', memory, '2684354560\n', false],
    ['a file with the value max, which means unlimited', memory, 'max\n', false],
    ['a file with both wanted numbers', cpu, '50000 100000\n', true],
    ['a file with two values of which one differs', cpu, 'max 100000\n', false],
    ['a processor-time file that is missing', cpu, undefined, false],
    ['a file with the wanted processors', cpus, '0-1,4\n', true],
    ['a file with processors other than the wanted ones', cpus, '0-4\n', false],
    ['a missing processor-set file, which an older agent did not write', cpus, undefined, true],
    ['a v1 file with the wanted rate', read, '8:0 5\n7:0 1000000\n', true],
    ['a v1 file that contains the wanted rate only for another device', read, '17:0 1000000\n', false],
    ['a v1 file with a rate other than the wanted one', read, '7:0 10000000\n', false],
    ['a v1 file without a rate if an unlimited rate is wanted', unread, '', true],
    ['a v1 file with a rate if an unlimited rate is wanted', unread, '7:0 1000000\n', false],
    ['a missing v1 file if an unlimited rate is wanted', unread, undefined, true],
    ['a missing v1 file if a limited rate is wanted', read, undefined, false],
    ['a v2 file with the wanted rates', io, '7:0 rbps=1000000 wbps=max riops=max wiops=max\n', true],
    ['a v2 file in which one rate differs', io, '7:0 rbps=1000000 wbps=5 riops=max wiops=max\n', false],
    ['a v2 file without rates if unlimited rates are wanted', noIo, '', true],
    [
      'a v2 file that contains the wanted rates only for another device',
      io,
      '8:0 rbps=1000000 wbps=max riops=max wiops=max\n',
      false,
    ],
  ] as const)
    it(`returns ${expected} for ${name}`, () => expect(isWritten(wanted, text)).to.equal(expected))
})
