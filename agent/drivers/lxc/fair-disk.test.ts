import { expect } from 'chai'
import { planFairDisk } from './fair-disk.js'

describe('the choice of an I/O scheduler for a disk', () => {
  const own = '/var/lib/berth/pool.img'
  for (const [what, disk, plan] of [
    ['a disk with BFQ', { path: '/sys/block/sda', scheduler: 'bfq' }, 'leave'],
    ['a disk whose scheduler the operator chose', { path: '/sys/block/sda', scheduler: 'mq-deadline' }, 'advise'],
    ['a disk without a queue', { path: '/sys/block/sda' }, 'leave'],
    ['the agent’s loop device', { path: '/sys/block/loop0', scheduler: 'none', backingFile: own }, 'set'],
    ['a loop device of another program', { path: '/sys/block/loop0', scheduler: 'none', backingFile: '/x' }, 'leave'],
    ['a stacked device', { path: '/sys/block/dm-0', scheduler: 'none' }, 'leave'],
  ] as const)
    it(`returns “${plan}” for ${what}`, () => expect(planFairDisk(disk, own)).to.equal(plan))
})
