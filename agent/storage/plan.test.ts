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
    ['fresh machine', loop, {}, [{ op: 'createLoopFile', file: '/pool.img' }, mountLoop]],
    ['empty loop file', loop, { loopFileExists: true }, [{ op: 'format', path: '/pool.img' }, mountLoop]],
    ['after a reboot', loop, { loopFileExists: true, signatures: ['btrfs'] }, [mountLoop]],
    ['somebody mounted it', loop, { mount: btrfs }, []],
    ['loop mounted', loop, { mount: btrfs, loopFileExists: true, mountBackingFile: '/pool.img' }, []],
    ['blank device', device, {}, [{ op: 'format', path: '/dev/sdb' }, mountDevice]],
    ['btrfs device', device, { signatures: ['btrfs'] }, [mountDevice]],
    ['device mounted', device, { mount: btrfs, mountHasDevice: true }, []],
  ] as [string, PoolWant, Partial<PoolHave>, unknown[]][])
    it(`${name}: ${steps.length} steps`, () => expect(planPool(want, { ...nothing, ...have })).to.deep.equal({ steps }))

  for (const [name, want, have, why] of [
    ['device with ext4', device, { signatures: ['ext4'] }, /contains ext4/],
    ['device with partitions', device, { signatures: ['gpt', 'PMBR'] }, /contains gpt, PMBR/],
    ['device with two signatures', device, { signatures: ['btrfs', 'ext4'] }, /contains btrfs, ext4/],
    ['loop file of another kind', loop, { loopFileExists: true, signatures: ['xfs'] }, /contains xfs/],
    ['foreign mount', loop, { mount: { ...btrfs, fsType: 'ext4' } }, /must be btrfs/],
    ['read-only mount', loop, { mount: { ...btrfs, options: ['ro'] } }, /read-only/],
    ['another device', device, { mount: btrfs }, /storage.device is/],
    ['mount and loop file', loop, { mount: btrfs, loopFileExists: true }, /there is also/],
    ['used directory', loop, { directoryUsed: true }, /not empty/],
  ] as [string, PoolWant, Partial<PoolHave>, RegExp][])
    it(`${name}: refused`, () =>
      expect(planPool(want, { ...nothing, ...have }))
        .to.have.property('refuse')
        .that.matches(why))
})
