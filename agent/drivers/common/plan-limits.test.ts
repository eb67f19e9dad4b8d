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

  it('are limited by files of their own with cgroup v1', () => {
    expect(lines(1)).to.include('blkio.throttle.read_iops_device 7:0 300')
    expect(lines(1)).to.include('blkio.throttle.write_iops_device 7:0 0')
  })
  it('are limited by the same file as the rates with cgroup v2', () =>
    expect(lines(2)).to.include('io.max 7:0 rbps=max wbps=max riops=300 wiops=max'))
  it('count as I/O limits even without other limits', () => expect(limitsIo(limits)).to.equal(true))
})

describe('isWritten', () => {
  for (const [name, wanted, text, expected] of [
    ['the same number', memory, '268435456\n', true],
    ['another number', memory, '268435457\n', false],
    ['a number with one more digit', memory, '2684354560\n', false],
    ['an unlimited value', memory, 'max\n', false],
    ['the same two numbers', cpu, '50000 100000\n', true],
    ['two values of which one differs', cpu, 'max 100000\n', false],
    ['a missing file', cpu, undefined, false],
    ['the same processors', cpus, '0-1,4\n', true],
    ['other processors', cpus, '0-4\n', false],
    ['missing processors of a guest that an older agent started', cpus, undefined, true],
    ['the same rate in v1', read, '8:0 5\n7:0 1000000\n', true],
    ['the same rate of another device in v1', read, '17:0 1000000\n', false],
    ['another rate in v1', read, '7:0 10000000\n', false],
    ['no rate in v1 if the rate is unlimited', unread, '', true],
    ['a rate in v1 that must be removed', unread, '7:0 1000000\n', false],
    ['a missing controller in v1 if the rate is unlimited', unread, undefined, true],
    ['a missing controller in v1', read, undefined, false],
    ['the same rates in v2', io, '7:0 rbps=1000000 wbps=max riops=max wiops=max\n', true],
    ['another rate in v2', io, '7:0 rbps=1000000 wbps=5 riops=max wiops=max\n', false],
    ['no rates in v2 if they are unlimited', noIo, '', true],
    ['the same rates of another device in v2', io, '8:0 rbps=1000000 wbps=max riops=max wiops=max\n', false],
  ] as const)
    it(`returns ${expected} for ${name}`, () => expect(isWritten(wanted, text)).to.equal(expected))
})
