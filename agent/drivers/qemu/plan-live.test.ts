import { expect } from 'chai'
import { parseProcessor } from './host-processor.js'
import { parseLiveFacts, type LiveFacts } from './live-facts.js'
import { planObstacles, type LiveTarget } from './plan-live.js'

const mib = 1024 ** 2
const processor = { vendor: 'GenuineIntel', model: '6-85-7', flags: ['avx2', 'sse4_2'] }
const nic = { ipv4: '10.64.0.2', prefixLength: 16, gateway: '10.64.0.1' }
const guest: LiveFacts = {
  version: '7.2.9',
  board: 'pc-q35-7.2',
  acceleration: 'kvm',
  devices: 'abc',
  processors: 1,
  memoryMib: 512,
  processor,
  system: { os: 'linux', firmware: 'bios', secureBoot: false, tpm: false },
  nic,
  ipv6Addresses: [],
}
const target: LiveTarget = {
  version: '7.2.9',
  acceleration: 'kvm',
  devices: 'abc',
  processor,
  nic,
  availableBytes: 512 * mib,
  limitMib: 512,
  limitProcessors: 1,
}

describe('the obstacles to a live move', () => {
  for (const [name, change] of [
    ['the properties of the source', {}],
    ['a newer QEMU', { version: '10.0.2' }],
    ['a newer patch of QEMU', { version: '7.2.22' }],
  ] as const)
    it(`do not exist if the target has ${name}`, () =>
      expect(planObstacles(guest, { ...target, ...change })).to.deep.equal([]))

  for (const [name, change, obstacle] of [
    ['a different acceleration', { acceleration: 'tcg' }, 'it runs with kvm, but the target uses tcg'],
    [
      'a processor that lacks a feature',
      { processor: { ...processor, flags: ['sse4_2'] } },
      'the processor of the target differs (GenuineIntel 6-85-7, here GenuineIntel 6-85-7) and lacks avx2',
    ],
    [
      'a processor of another vendor',
      { processor: { ...processor, vendor: 'AuthenticAMD', model: '25-1-1' } },
      'the processor of the target differs (AuthenticAMD 25-1-1, here GenuineIntel 6-85-7)',
    ],
    ['an older QEMU', { version: '7.2.1' }, 'the target has QEMU 7.2.1, which is older than 7.2.9'],
    [
      'different devices',
      { devices: 'def' },
      'it was started by another version of the agent, or the target cannot provide the same devices',
    ],
    ['too little free memory', { availableBytes: 300 * mib }, 'the target has only 300 MiB of free memory'],
    ['a lower memory limit for the guest', { limitMib: 256 }, 'its memory limit was lowered since it was started'],
    [
      'a lower processor limit for the guest',
      { limitProcessors: 0 },
      'its processor limit was lowered since it was started',
    ],
    [
      'a different private address for the guest',
      { nic: { ...nic, ipv4: '10.64.0.9' }, devices: 'def' },
      'its private address 10.64.0.2 is not free on the target',
    ],
    [
      'a different private network',
      { nic: { ...nic, gateway: '10.64.0.254' } },
      'the private network of the target is different',
    ],
  ] as const)
    it(`exist if the target has ${name}`, () =>
      expect(planObstacles(guest, { ...target, ...change })).to.deep.equal([obstacle]))

  it('do not exist for a different processor if QEMU translates the instructions (tcg)', () => {
    const other = { processor: { ...processor, vendor: 'AuthenticAMD' }, acceleration: 'tcg' } as const
    expect(planObstacles({ ...guest, acceleration: 'tcg' }, { ...target, ...other })).to.deep.equal([])
  })
})

describe('facts that a host sends about a running guest', () => {
  it('are the same after they were written and read again', () =>
    expect(parseLiveFacts(JSON.stringify(guest))).to.deep.equal(guest))

  for (const [name, change] of [
    ['a board name that contains further options', { board: 'pc-q35-7.2,accel=kvm' }],
    ['an unknown acceleration', { acceleration: 'xen' }],
    ['too much memory', { memoryMib: 2 ** 30 }],
    ['an empty QEMU version', { version: '' }],
  ] as const)
    it(`are refused with ${name}`, () =>
      expect(() => parseLiveFacts(JSON.stringify({ ...guest, ...change })))
        .to.throw()
        .that.includes({ code: 'bad_stream' }))

  it('are refused if they are not JSON', () =>
    expect(() => parseLiveFacts('{'))
      .to.throw()
      .that.includes({ code: 'bad_stream' }))
})

describe('the processor of a host', () => {
  it('is the first processor in /proc/cpuinfo, with sorted features', () => {
    const lines = [
      'vendor_id\t: GenuineIntel',
      'cpu family\t: 6',
      'model\t\t: 85',
      'model name\t: Xeon',
      'stepping\t: 7',
    ]
    const text = `${lines.join('\n')}\nflags\t\t: sse4_2 avx2\n\nvendor_id\t: Other\n`
    expect(parseProcessor(text)).to.deep.equal(processor)
  })
})
