import { expect } from 'chai'
import { checkBackupFits } from './plan-backup-fit.js'

const gib = 1024 ** 3
const mib = 1024 ** 2

describe('the check whether a backup fits onto a guest', () => {
  for (const [what, virtualization, kind, sizeBytes, refused] of [
    ['accepts a backup of a container, whatever its size', 'lxc', 'lxc', 50 * gib, ''],
    [
      'accepts a backup with 60 MiB of other files and a disk of the same size as the guest’s disk',
      'kvm',
      'kvm',
      2 * gib + 60 * mib,
      '',
    ],
    ['accepts a backup of a disk that is smaller than the guest’s disk', 'kvm', 'kvm', gib, ''],
    ['accepts a backup of an unknown kind of guest', 'kvm', undefined, gib, ''],
    ['refuses a backup of a disk that is larger than the guest’s disk', 'kvm', 'kvm', 3 * gib + mib, 'disk_too_small'],
    ['refuses a backup of a container for a virtual machine', 'kvm', 'lxc', mib, 'unsupported'],
    ['refuses a backup of a virtual machine for a container', 'lxc', 'kvm', gib, 'unsupported'],
  ] as const)
    it(what, () => {
      const limits = { vcpuMilli: 1000, ramMb: 256, diskGb: 2 }
      const rates = { networkDownMbps: 0, networkUpMbps: 0, ioReadMbps: 0, ioWriteMbps: 0 }
      const backup = { sizeBytes, ...(kind && { virtualization: kind }) }
      const check = (): void => checkBackupFits({ virtualization, limits: { ...limits, ...rates } }, backup)
      if (refused === '') check()
      else expect(check).to.throw().with.property('code', refused)
    })
})
