import { expect } from 'chai'
import type { Machine, MachineBoot } from '../machine.js'
import { parseDiskSystem, plainSystem, type DiskSystem } from './disk-system.js'
import { planDisks, planMedia, type MediaFacts } from './plan-disks.js'

const limits: Machine['limits'] = {
  vcpuMilli: 1000,
  memoryBytes: 2 ** 29,
  swapBytes: 0,
  diskBytes: 2 ** 30,
  ioReadBytesPerSec: 0,
  ioWriteBytesPerSec: 0,
}
const windows: DiskSystem = { os: 'windows', firmware: 'uefi', secureBoot: true, tpm: true }
const uefi = { firmware: '/usr/share/OVMF/code', driversCd: '/srv/virtio.iso' }

function plan(boot: MachineBoot, facts: Partial<MediaFacts> = {}) {
  const machine = { volume: '/guests/x', boot, limits } as Machine
  const all = { system: plainSystem, seed: '/state/seed.iso', ...facts }
  const media = planMedia(machine, all)
  const args = planDisks(machine, all, media)
  const devices = args.filter((arg) => /^(virtio-blk-pci|ide-cd),/.test(arg))
  return { media, args, devices: devices.map((arg) => arg.replace(/,(id|serial)=[^,]*/g, '')) }
}

describe('the disks and CDs of a virtual machine', () => {
  for (const [what, boot, facts, devices] of [
    [
      'the disk and the seed disk if the machine boots from its disk',
      { mode: 'disk' },
      {},
      ['virtio-blk-pci,drive=disk,bootindex=1', 'virtio-blk-pci,drive=seed'],
    ],
    [
      'the disk, the seed disk and a CD that boots first if the machine boots from a CD',
      { mode: 'cdrom', iso: '/images/x/cd.iso' },
      {},
      ['virtio-blk-pci,drive=disk,bootindex=1', 'virtio-blk-pci,drive=seed', 'ide-cd,bus=ide.0,drive=cd,bootindex=0'],
    ],
    [
      'the rescue disk, the guest’s disk and the seed disk in rescue mode',
      { mode: 'rescue', volume: '/guests/x.rescue' },
      {},
      ['virtio-blk-pci,drive=rescue,bootindex=0', 'virtio-blk-pci,drive=disk', 'virtio-blk-pci,drive=seed'],
    ],
    [
      'the disk, a CD with the seed and a CD with the drivers for Windows',
      { mode: 'disk' },
      { system: windows, ...uefi },
      ['virtio-blk-pci,drive=disk,bootindex=1', 'ide-cd,bus=ide.2,drive=seed', 'ide-cd,bus=ide.1,drive=drivers'],
    ],
    [
      'only the disk and the seed disk for Linux, even if the host has a CD with drivers',
      { mode: 'disk' },
      { driversCd: '/srv/virtio.iso' },
      ['virtio-blk-pci,drive=disk,bootindex=1', 'virtio-blk-pci,drive=seed'],
    ],
  ] as const)
    it(`are ${what}`, () => expect(plan(boot, facts).devices).to.deep.equal(devices))

  it('are opened in separate descriptor sets of QEMU, for writing only if the guest can write to them', () => {
    const { media, args } = plan({ mode: 'cdrom', iso: '/images/x/cd.iso' }, { system: windows, ...uefi })
    expect(media.map(({ path, access }) => `${access} ${path}`)).to.deep.equal([
      'direct /guests/x/disk.raw',
      'read /state/seed.iso',
      'read /images/x/cd.iso',
      'read /srv/virtio.iso',
      'read /usr/share/OVMF/code',
      'write /guests/x/vars.fd',
    ])
    expect(new Set(media.map(({ set }) => set)).size).to.equal(media.length)
    const nodes = args.flatMap((arg, at) =>
      args[at - 1] === '-blockdev' ? [JSON.parse(arg) as Record<string, unknown>] : [],
    )
    const writable = nodes.filter((node) => node['read-only'] !== true).map((node) => node['node-name'])
    expect(writable).to.deep.equal(['disk-file', 'disk-raw', 'disk', 'vars-file', 'vars'])
  })

  it('include the firmware variables of the rescue system in rescue mode', () => {
    const { media } = plan({ mode: 'rescue', volume: '/guests/x.rescue' }, { firmware: '/code' })
    expect(media.find(({ name }) => name === 'vars')?.path).to.equal('/guests/x.rescue/vars.fd')
  })
})

describe('the recorded operating system of a virtual disk', () => {
  for (const [what, text, system] of [
    ['is an empty object', '{}', plainSystem],
    ['is not JSON', '{', plainSystem],
    ['is null', 'null', plainSystem],
    ['contains unknown values', '{"os":"beos","firmware":7,"tpm":"yes"}', plainSystem],
    ['contains secure boot without UEFI', '{"secureBoot":true}', plainSystem],
    [
      'names Windows and contains all fields',
      '{"os":"windows","firmware":"uefi","secureBoot":true,"tpm":true,"more":1}',
      windows,
    ],
  ] as const)
    it(`is ${system.os} if the record ${what}`, () => expect(parseDiskSystem(text)).to.deep.equal(system))
})
