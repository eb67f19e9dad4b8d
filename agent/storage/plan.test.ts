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

describe('planPool', () => {
  for (const [name, want, have, steps] of [
    ['a new host', loop, {}, [{ op: 'createLoopFile', file: '/pool.img' }, mountLoop]],
    ['an empty loop file', loop, { loopFileExists: true }, [{ op: 'format', path: '/pool.img' }, mountLoop]],
    ['a formatted loop file after a reboot', loop, { loopFileExists: true, signatures: ['btrfs'] }, [mountLoop]],
    ['a pool that another program mounted', loop, { mount: btrfs }, []],
    ['a mounted loop file', loop, { mount: btrfs, loopFileExists: true, mountBackingFile: '/pool.img' }, []],
    ['a blank device', device, {}, [{ op: 'format', path: '/dev/sdb' }, mountDevice]],
    ['a device with btrfs', device, { signatures: ['btrfs'] }, [mountDevice]],
    ['a mounted device', device, { mount: btrfs, mountHasDevice: true }, []],
  ] as [string, PoolWant, Partial<PoolHave>, unknown[]][])
    it(`plans ${steps.length} steps for ${name}`, () =>
      expect(planPool(want, { ...nothing, ...have })).to.deep.equal({ steps }))

  for (const [name, want, have, why] of [
    ['a device with ext4', device, { signatures: ['ext4'] }, /contains ext4/],
    ['a device with partitions', device, { signatures: ['gpt', 'PMBR'] }, /contains gpt, PMBR/],
    ['a device with two signatures', device, { signatures: ['btrfs', 'ext4'] }, /contains btrfs, ext4/],
    ['a loop file with another filesystem', loop, { loopFileExists: true, signatures: ['xfs'] }, /contains xfs/],
    ['a mount of another filesystem', loop, { mount: { ...btrfs, fsType: 'ext4' } }, /must be btrfs/],
    ['a read-only mount', loop, { mount: { ...btrfs, options: ['ro'] } }, /read-only/],
    ['a mount of another device than the configured one', device, { mount: btrfs }, /storage.device is/],
    ['a mount of another device next to a loop file', loop, { mount: btrfs, loopFileExists: true }, /there is also/],
    ['a directory that contains files', loop, { directoryUsed: true }, /not empty/],
  ] as [string, PoolWant, Partial<PoolHave>, RegExp][])
    it(`refuses ${name}`, () =>
      expect(planPool(want, { ...nothing, ...have }))
        .to.have.property('refuse')
        .that.matches(why))
})
