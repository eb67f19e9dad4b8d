import { expect } from 'chai'
import type { Mount } from '../host/disk/mount.js'
import { planPool, type PoolHave, type PoolWant } from './plan.js'

const loop: PoolWant = { pool: '/pool', device: '', loopFile: '/pool.img' }
const device: PoolWant = { ...loop, device: '/dev/sdb' }
const nothing: PoolHave = {
  mount: undefined,
  mountBackingFile: undefined,
  mountHasDevice: false,
  directoryUsed: false,
  loopFileExists: false,
  signatures: [],
}
const btrfs: Mount = { source: '/dev/sdb', target: '/pool', fsType: 'btrfs', options: ['rw', 'noatime'] }
const mountLoop = { op: 'mount', source: '/pool.img', target: '/pool', loop: true }
const mountDevice = { op: 'mount', source: '/dev/sdb', target: '/pool', loop: false }

describe('the plan to create and mount the storage pool', () => {
  for (const [name, want, have, steps] of [
    ['a new host', loop, {}, [{ op: 'createLoopFile', file: '/pool.img' }, mountLoop]],
    ['an empty loop file', loop, { loopFileExists: true }, [{ op: 'format', path: '/pool.img' }, mountLoop]],
    ['a formatted loop file after a reboot', loop, { loopFileExists: true, signatures: ['btrfs'] }, [mountLoop]],
    ['a pool that another program mounted', loop, { mount: btrfs }, []],
    [
      'a loop file that is already mounted',
      loop,
      { mount: btrfs, loopFileExists: true, mountBackingFile: '/pool.img' },
      [],
    ],
    ['a blank device', device, {}, [{ op: 'format', path: '/dev/sdb' }, mountDevice]],
    ['a device that contains btrfs and is not mounted', device, { signatures: ['btrfs'] }, [mountDevice]],
    ['a device that is already mounted', device, { mount: btrfs, mountHasDevice: true }, []],
  ] as [string, PoolWant, Partial<PoolHave>, unknown[]][])
    it(`contains ${steps.length || 'no'} ${steps.length === 1 ? 'step' : 'steps'} for ${name}`, () =>
      expect(planPool(want, { ...nothing, ...have })).to.deep.equal({ steps }))

  for (const [name, want, have, why] of [
    ['a device with ext4', device, { signatures: ['ext4'] }, /contains ext4/],
    ['a device with partitions', device, { signatures: ['gpt', 'PMBR'] }, /contains gpt, PMBR/],
    [
      'a device with the signatures of two file systems',
      device,
      { signatures: ['btrfs', 'ext4'] },
      /contains btrfs, ext4/,
    ],
    [
      'a loop file with a file system other than btrfs',
      loop,
      { loopFileExists: true, signatures: ['xfs'] },
      /contains xfs/,
    ],
    [
      'a pool on which a file system other than btrfs is mounted',
      loop,
      { mount: { ...btrfs, fsType: 'ext4' } },
      /must be btrfs/,
    ],
    ['a pool that is mounted read-only', loop, { mount: { ...btrfs, options: ['ro'] } }, /read-only/],
    [
      'a pool on which a device other than the configured device is mounted',
      device,
      { mount: btrfs },
      /storage.device is/,
    ],
    [
      'a pool on which another device is mounted although a loop file exists',
      loop,
      { mount: btrfs, loopFileExists: true },
      /there is also/,
    ],
    ['a pool that is not mounted and whose directory contains files', loop, { directoryUsed: true }, /not empty/],
  ] as [string, PoolWant, Partial<PoolHave>, RegExp][])
    it(`refuses ${name}`, () =>
      expect(planPool(want, { ...nothing, ...have }))
        .to.have.property('refuse')
        .that.matches(why))
})
