import { expect } from 'chai'
import type { Ratios } from '../../../shared/allocation.js'
import { BerthError } from '../../../shared/errors.js'
import { unmeasuredSpace } from '../record/snapshots-and-backups.js'
import { checkAllocation } from './allocation.js'

const gib = 1024 ** 3
const rates = { networkDownMbps: 0, networkUpMbps: 0, ioReadMbps: 0, ioWriteMbps: 0 }
const limits = { vcpuMilli: 1000, ramMb: 100, diskGb: 10, ...rates }
const capacity = { cpuCores: 2, ramTotalMb: 400, readDisk: undefined }
const disk = { totalBytes: 40.5 * gib, usedBytes: 0 }
const none = { cpu: 0, ram: 0, disk: 0 }

function guest(role: 'owner' | 'arriving' | 'handed_over' | 'fenced' = 'owner', retainedBytes = 0) {
  return {
    spec: { virtualization: 'lxc' as const, templateId: 'debian-12', limits },
    snapshots: [],
    snapshotSpace: { ...unmeasuredSpace, isMeasured: true, retainedBytes },
    ownership: { role, generation: 0, moveId: '' },
  }
}

describe('the comparison of the limits of all guests with the host', () => {
  for (const [name, guests, overcommit, field] of [
    ['accepts a guest that fills the memory', [guest(), guest(), guest()], { ...none, ram: 1 }, undefined],
    ['refuses a guest for lack of memory', [guest(), guest(), guest(), guest()], { ...none, ram: 1 }, 'ram_mb'],
    ['refuses a guest for lack of processors', [guest(), guest(), guest()], { ...none, cpu: 1.5 }, 'vcpu'],
    [
      'refuses a guest for lack of disk space',
      [guest(), guest(), guest('owner', gib)],
      { ...none, disk: 1 },
      'disk_gb',
    ],
    [
      'counts guests that are moving to or from the host',
      [guest('arriving'), guest('handed_over'), guest(), guest()],
      { ...none, ram: 1 },
      'ram_mb',
    ],
    [
      'does not count the old copy of a guest that now belongs to another host',
      [guest('fenced'), guest(), guest(), guest()],
      { ...none, ram: 1 },
      undefined,
    ],
    [
      'accepts any number of guests if no resource has a limit',
      Array.from({ length: 99 }, () => guest()),
      none,
      undefined,
    ],
    [
      'accepts any number of guests if the gateway sends no overcommit ratios',
      Array.from({ length: 99 }, () => guest()),
      undefined,
      undefined,
    ],
  ] as const)
    it(name, () => {
      let refused: BerthError | undefined
      try {
        checkAllocation({ guests, copies: [] }, limits, { capacity, disk, overcommit })
      } catch (error) {
        refused = error as BerthError
      }
      expect(refused?.field).to.equal(field)
      expect(refused?.code).to.equal(field && 'resource_exhausted')
    })

  it('counts the disk space of copies of standbys, but no memory', () => {
    const present = { guests: [guest(), guest()], copies: [{ uuid: 'u2', diskGb: 11 }] }
    const check = (ratios: Ratios) => () => checkAllocation(present, limits, { capacity, disk, overcommit: ratios })
    expect(check({ ...none, disk: 1 }))
      .to.throw()
      .with.property('field', 'disk_gb')
    expect(check({ ...none, ram: 1 })).not.to.throw()
  })
})
