import { expect } from 'chai'
import { unmeasuredSpace } from '../record/snapshots-and-backups.js'
import { planReceived, planStreamBytes } from './received-disks.js'

const gib = 1024 ** 3
const limits = {
  vcpuMilli: 1000,
  ramMb: 256,
  diskGb: 4,
  networkDownMbps: 0,
  networkUpMbps: 0,
  ioReadMbps: 0,
  ioWriteMbps: 0,
}
const record = {
  spec: { virtualization: 'lxc', templateId: 'debian-12', limits },
  snapshotSpace: unmeasuredSpace,
} as const

describe('the size limit for the next disk stream of a move', () => {
  it('is the size of the disk plus some overhead if there is only one stream', () => {
    expect(planStreamBytes(record, {})).to.equal(6 * gib)
  })

  it('limits all streams together to the size of the disk, its snapshots and the transfers of disk changes', () => {
    expect(planStreamBytes(record, { a: 20 * gib })).to.equal(6 * gib)
    expect(planStreamBytes(record, { a: 20 * gib, b: 5 * gib })).to.equal(gib)
    expect(planStreamBytes(record, { a: 26 * gib, b: 5 * gib })).to.equal(0)
  })

  it('is higher if the space limit of the guest’s snapshots is higher', () => {
    const snapshotSpace = { ...unmeasuredSpace, limitBytes: 100 * gib }
    expect(planStreamBytes({ ...record, snapshotSpace }, { a: 31 * gib })).to.equal(6 * gib)
  })

  it('refuses a move with more snapshots than the guest and the transfers of disk changes can have', () => {
    const many = Object.fromEntries(Array.from({ length: 1100 }, (_, index) => [`s${index}`, 1]))
    expect(() => planStreamBytes(record, many))
      .to.throw()
      .with.property('code', 'bad_stream')
  })
})

describe('the snapshots that the target of a move keeps', () => {
  const moveId = '0d7c3a52-7f43-4a3a-9a53-0c6b0f6f2b11'
  const plan = (received: Readonly<Record<string, number>>, id: string) =>
    Object.entries(planReceived(received, { moveId, disk: { id, bytes: 5 }, mostBytes: 100 }))

  for (const [name, received, id, expected] of [
    ['the first round', { s1: 30 }, 'move-0d7c3a52-1', { s1: 30, 'move-0d7c3a52-1': 5 }],
    [
      'the data of a new transfer instead of the data of earlier transfers',
      { s1: 30, 'move-0d7c3a52-1': 40 },
      'move-0d7c3a52-2',
      { s1: 30, 'move-0d7c3a52-2': 45 },
    ],
    [
      'the data of a new transfer, which counts at most as much as the size of the disk',
      { 'move-0d7c3a52-9': 98 },
      'move-0d7c3a52-10',
      { 'move-0d7c3a52-10': 100 },
    ],
    [
      'the data of the newest transfer in addition to the last increment',
      { 'move-0d7c3a52-3': 40 },
      'move-0d7c3a52-live-last',
      { 'move-0d7c3a52-3': 40, 'move-0d7c3a52-live-last': 5 },
    ],
    [
      'the data of a different move',
      { 'move-ffffffff-1': 40 },
      'move-0d7c3a52-1',
      { 'move-ffffffff-1': 40, 'move-0d7c3a52-1': 5 },
    ],
  ] as const)
    it(`include ${name}`, () => expect(plan(received, id)).to.deep.equal(Object.entries(expected)))
})
