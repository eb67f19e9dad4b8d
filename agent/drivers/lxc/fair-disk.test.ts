import { expect } from 'chai'
import { planFairDisk } from './fair-disk.js'

describe('planFairDisk', () => {
  const own = '/var/lib/berth/pool.img'
  for (const [what, disk, plan] of [
    ['has BFQ', { path: '/sys/block/sda', scheduler: 'bfq' }, 'leave'],
    ['is the operator’s', { path: '/sys/block/sda', scheduler: 'mq-deadline' }, 'advise'],
    ['has no queue', { path: '/sys/block/sda' }, 'leave'],
    ['is the agent’s loop', { path: '/sys/block/loop0', scheduler: 'none', backingFile: own }, 'set'],
    ['is another’s loop', { path: '/sys/block/loop0', scheduler: 'none', backingFile: '/x' }, 'leave'],
    ['is stacked', { path: '/sys/block/dm-0', scheduler: 'none' }, 'leave'],
  ] as const)
    it(`${plan}s what ${what}`, () => expect(planFairDisk(disk, own)).to.equal(plan))
})
