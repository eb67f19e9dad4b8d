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

describe('disks and CDs of a virtual machine', () => {
  for (const [what, boot, facts, devices] of [
    [
      'its disk and its seed',
      { mode: 'disk' },
      {},
      ['virtio-blk-pci,drive=disk,bootindex=1', 'virtio-blk-pci,drive=seed'],
    ],
    [
      'a CD before its disk',
      { mode: 'cdrom', iso: '/images/x/cd.iso' },
      {},
      ['virtio-blk-pci,drive=disk,bootindex=1', 'virtio-blk-pci,drive=seed', 'ide-cd,bus=ide.0,drive=cd,bootindex=0'],
    ],
    [
      'the rescue disk first, its own disk second',
      { mode: 'rescue', volume: '/guests/x.rescue' },
      {},
      ['virtio-blk-pci,drive=rescue,bootindex=0', 'virtio-blk-pci,drive=disk', 'virtio-blk-pci,drive=seed'],
    ],
    [
      'for Windows seed and drivers as CDs',
      { mode: 'disk' },
      { system: windows, ...uefi },
      ['virtio-blk-pci,drive=disk,bootindex=1', 'ide-cd,bus=ide.2,drive=seed', 'ide-cd,bus=ide.1,drive=drivers'],
    ],
    [
      'no drivers for Linux',
      { mode: 'disk' },
      { driversCd: '/srv/virtio.iso' },
      ['virtio-blk-pci,drive=disk,bootindex=1', 'virtio-blk-pci,drive=seed'],
    ],
  ] as const)
    it(`are ${what}`, () => expect(plan(boot, facts).devices).to.deep.equal(devices))

  it('are files of the guest, in separate fd sets; files without write permission are read-only', () => {
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

  it('include the firmware of the rescue system during rescue', () => {
    const { media } = plan({ mode: 'rescue', volume: '/guests/x.rescue' }, { firmware: '/code' })
    expect(media.find(({ name }) => name === 'vars')?.path).to.equal('/guests/x.rescue/vars.fd')
  })
})

describe('the system type of a disk', () => {
  for (const [what, text, system] of [
    ['nothing', '{}', plainSystem],
    ['no JSON', '{', plainSystem],
    ['no record', 'null', plainSystem],
    ['unknown words', '{"os":"beos","firmware":7,"tpm":"yes"}', plainSystem],
    ['secure boot without UEFI', '{"secureBoot":true}', plainSystem],
    ['all', '{"os":"windows","firmware":"uefi","secureBoot":true,"tpm":true,"more":1}', windows],
  ] as const)
    it(`is read from ${what}`, () => expect(parseDiskSystem(text)).to.deep.equal(system))
})
