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

describe('requests per second of the disk', () => {
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

  it('are bounded by files of their own in v1', () => {
    expect(lines(1)).to.include('blkio.throttle.read_iops_device 7:0 300')
    expect(lines(1)).to.include('blkio.throttle.write_iops_device 7:0 0')
  })
  it('are bounded by the same file in v2', () =>
    expect(lines(2)).to.include('io.max 7:0 rbps=max wbps=max riops=300 wiops=max'))
  it('need the controller even without other limits', () => expect(limitsIo(limits)).to.equal(true))
})

describe('is a limit written', () => {
  for (const [name, wanted, text, expected] of [
    ['the same', memory, '268435456\n', true],
    ['another', memory, '268435457\n', false],
    ['longer', memory, '2684354560\n', false],
    ['unlimited', memory, 'max\n', false],
    ['two numbers', cpu, '50000 100000\n', true],
    ['another of two', cpu, 'max 100000\n', false],
    ['no file', cpu, undefined, false],
    ['processors', cpus, '0-1,4\n', true],
    ['other processors', cpus, '0-4\n', false],
    ['processors of a guest from before', cpus, undefined, true],
    ['v1: the rate of the device', read, '8:0 5\n7:0 1000000\n', true],
    ['v1: of another device only', read, '17:0 1000000\n', false],
    ['v1: another rate', read, '7:0 10000000\n', false],
    ['v1: none, and none wanted', unread, '', true],
    ['v1: one that is to go', unread, '7:0 1000000\n', false],
    ['v1: no controller, and none wanted', unread, undefined, true],
    ['v1: no controller', read, undefined, false],
    ['v2: as the kernel has it', io, '7:0 rbps=1000000 wbps=max riops=max wiops=max\n', true],
    ['v2: another', io, '7:0 rbps=1000000 wbps=5 riops=max wiops=max\n', false],
    ['v2: none, and none wanted', noIo, '', true],
    ['v2: none', io, '8:0 rbps=1000000 wbps=max riops=max wiops=max\n', false],
  ] as const)
    it(name, () => expect(isWritten(wanted, text)).to.equal(expected))
})
