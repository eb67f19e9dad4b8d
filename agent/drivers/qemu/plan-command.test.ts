import { expect } from 'chai'
import type { Machine } from '../machine.js'
import { plainSystem } from './disk-system.js'
import { planMedia } from './plan-disks.js'
import { hashDevices } from './hash-devices.js'
import { memoryMibOf, planCommand, processorsOf } from './plan-command.js'

const mib = 1024 ** 2
const machine: Machine = {
  uuid: '9941445d-d693-42e3-83ee-3eb4cbf41972',
  id: 7,
  hostname: 'web',
  volume: '/pool/guests/x',
  limits: {
    vcpuMilli: 1500,
    memoryBytes: 512 * mib,
    swapBytes: 0,
    diskBytes: 2 ** 30,
    ioReadBytesPerSec: 5_000_000,
    ioWriteBytesPerSec: 0,
    ioReadsPerSec: 250,
  },
  isolation: { userIdBase: 1_000_000, pidsMax: 100 },
  nic: {
    device: 'bt7',
    bridge: 'berth0',
    mac: 'be:be:0a:40:00:02',
    ipv4: '10.64.0.2',
    prefixLength: 16,
    gateway: '10.64.0.1',
    ipv6Addresses: [],
    gateway6: 'fe80::1',
  },
  resolvers: ['9.9.9.9'],
}
const media = planMedia(machine, { system: plainSystem, seed: '/state/seed.iso' })
const facts = { name: 'bt-7', acceleration: 'tcg', system: plainSystem, media } as const

/** Returns the values of an option, in order. */
function valuesOf(command: readonly string[], option: string): string[] {
  return command.flatMap((part, at) => (part === option ? [command[at + 1] ?? ''] : []))
}

describe('the planned QEMU command line', () => {
  const command = planCommand(machine, facts)

  it('excludes default devices, configuration files of the host and child processes', () => {
    expect(command).to.include.members(['-nodefaults', '-no-user-config'])
    expect(valuesOf(command, '-sandbox')).to.deep.equal([
      'on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny',
    ])
  })

  it('names files only by descriptors, never by their paths', () => {
    for (const node of valuesOf(command, '-blockdev').map((text) => JSON.parse(text) as { filename?: string }))
      expect(node.filename ?? '/dev/fdset/').to.match(/^\/dev\/fdset\//)
    expect(command.join(' ')).to.not.contain('/pool')
    expect(valuesOf(command, '-chardev').every((text) => /,fd=%\{\w+\},/.test(text))).to.equal(true)
  })

  it('gives the guest its memory, and a whole number of processors even for a fractional limit', () => {
    expect(valuesOf(command, '-smp')).to.deep.equal(['2,sockets=1,cores=2,threads=1'])
    expect(valuesOf(command, '-m')).to.deep.equal(['512M'])
  })

  it('limits the read and write rates of the disk', () => {
    expect(JSON.parse(valuesOf(command, '-object')[0] ?? '')).to.deep.equal({
      'qom-type': 'throttle-group',
      id: 'throttle0',
      limits: { 'bps-read': 5_000_000, 'bps-write': 0, 'iops-read': 250, 'iops-write': 0 },
    })
  })

  it('makes QEMU report the guest’s memory use from the beginning', () => {
    const [balloon = ''] = valuesOf(command, '-device').filter((text) => text.startsWith('virtio-balloon-pci'))
    expect(balloon.split(',')).to.include('guest-stats-polling-interval=10')
  })

  it('keeps QEMU running after the guest shuts down, and selects an accelerator and a CPU model', () => {
    expect(valuesOf(command, '-action')).to.deep.equal(['shutdown=pause,panic=none'])
    expect(valuesOf(command, '-accel')).to.deep.equal(['tcg,thread=multi,tb-size=128'])
    const accelerated = planCommand(machine, { ...facts, acceleration: 'kvm' })
    expect([valuesOf(accelerated, '-accel'), valuesOf(accelerated, '-cpu')]).to.deep.equal([['kvm'], ['host']])
  })

  it('gives a Windows guest the Hyper-V features, a clock in local time, a pointing device, firmware and a TPM', () => {
    const system = { os: 'windows', firmware: 'uefi', secureBoot: true, tpm: true } as const
    const media = planMedia(machine, { system, seed: '/state/seed.iso', firmware: '/usr/share/OVMF/x' })
    const windows = planCommand(machine, { ...facts, acceleration: 'kvm', system, media })
    const [cpu = ''] = valuesOf(windows, '-cpu')
    expect(cpu.split(',')).to.include.members(['host', 'hv-relaxed', 'hv-vapic', 'hv-stimer', 'hv-time'])
    expect(valuesOf(windows, '-rtc')).to.deep.equal(['base=localtime,driftfix=slew'])
    expect(valuesOf(windows, '-machine')[0]).to.match(/,smm=on,pflash0=code,pflash1=vars$/)
    expect(valuesOf(windows, '-global')).to.include('driver=cfi.pflash01,property=secure,value=on')
    expect(valuesOf(windows, '-tpmdev')).to.deep.equal(['emulator,id=tpm0,chardev=tpm'])
    expect(valuesOf(windows, '-chardev')).to.include('socket,id=tpm,fd=%{tpm}')
    expect(valuesOf(windows, '-device')).to.include('usb-tablet,bus=usb.0')
    expect(windows.join(' ')).to.not.contain('/usr/share')
  })

  it('gives a Linux guest with a BIOS neither firmware variables nor devices for Windows', () => {
    expect(valuesOf(command, '-machine')).to.deep.equal(['q35,usb=off,vmport=off,dump-guest-core=off,smm=off'])
    expect(command.join(' ')).to.not.match(/tpm|pflash|usb-tablet|ide-cd|hv-/)
  })

  for (const [what, wrong, name] of [
    ['a name', machine, 'bt-7,x=y'],
    ['a uuid', { ...machine, uuid: 'x' }, 'bt-7'],
    ['a MAC', { ...machine, nic: { ...machine.nic, mac: '00:00,bus=x' } }, 'bt-7'],
  ] as const)
    it(`does not let a guest add QEMU options through ${what}`, () =>
      expect(() => planCommand(wrong, { ...facts, name })).to.throw('form'))
})

describe('processors and memory of a virtual machine', () => {
  for (const [vcpuMilli, processors] of [
    [10, 1],
    [1000, 1],
    [1001, 2],
    [2500, 3],
  ] as const)
    it(`are rounded up from a limit of ${vcpuMilli / 1000} to whole processors: ${processors}`, () =>
      expect(processorsOf({ vcpuMilli })).to.equal(processors))

  it('are rounded down to whole MiB of memory', () => expect(memoryMibOf({ memoryBytes: 300 * mib + 5 })).to.equal(300))
})

describe('the command line of a guest that arrives from another host', () => {
  const arrival = { board: 'pc-q35-7.1', processors: 2, memoryMib: 256 }
  const command = planCommand(machine, { ...facts, arrival })

  it('lets QEMU wait for the memory of the guest, without running the guest', () =>
    expect(command.slice(-3)).to.deep.equal(['-S', '-incoming', 'unix:incoming']))

  it('has the board, processors and memory with which the guest runs on the other host', () => {
    expect(valuesOf(command, '-machine')[0]).to.match(/^pc-q35-7\.1,/)
    expect([...valuesOf(command, '-smp'), ...valuesOf(command, '-m')].join()).to.match(/^2,.*,256M$/)
  })

  it('has the same devices as on the other host, even if file names, limits and board differ', () => {
    const limits = { ...machine.limits, vcpuMilli: 2000, memoryBytes: 256 * mib, ioReadBytesPerSec: 0 }
    const there = hashDevices({ ...machine, id: 9, limits }, { ...facts, name: 'other-9' })
    expect(hashDevices(machine, { ...facts, arrival })).to.equal(there)
  })

  for (const [name, other, change] of [
    ['MAC address', { nic: { ...machine.nic, mac: 'be:be:0a:40:00:09' } }, {}],
    ['acceleration', {}, { acceleration: 'kvm' }],
    ['firmware', {}, { system: { ...plainSystem, tpm: true } }],
  ] as const)
    it(`has different devices if the ${name} differs`, () =>
      expect(hashDevices({ ...machine, ...other }, { ...facts, ...change })).to.not.equal(hashDevices(machine, facts)))

  it('refuses a board name that contains further QEMU options', () =>
    expect(() => planCommand(machine, { ...facts, arrival: { ...arrival, board: 'pc-q35-7.2,x=y' } })).to.throw(
      'board',
    ))
})
